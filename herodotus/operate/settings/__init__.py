"""What did the operator choose? `config.toml`, the environment and flags, read once into frozen sections."""
