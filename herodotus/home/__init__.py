"""What lies in a peer's home folder? The folder and its lock, the key, and small files that change without tearing."""
