"""What a request is, who may send it, and when it has its turn."""
