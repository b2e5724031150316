"""Which edges are worth scoring, and what several scorers say about them."""
