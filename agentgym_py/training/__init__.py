"""What trainers share: the contract, the training loop, checkpoints, tracking."""

from agentgym_py.training.trainer import OnPolicyTrainer, Trainer, TrainReport

__all__ = ["OnPolicyTrainer", "TrainReport", "Trainer"]
