"""The parent process, its workers, and the connections it hands to them."""
