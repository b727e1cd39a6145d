"""The command ``tfdp``: parses arguments and dispatches. TensorFlow is loaded by the commands
that need it, and not before the runtime settings are made."""
