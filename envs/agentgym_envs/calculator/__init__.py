"""AgentCalculator-v0: word problems and a calculator that computes with exact fractions."""
