"""What a person reads of a run: the HTML page, the terminal, the model card."""
