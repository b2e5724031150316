"""Facts, predictions, labels and attributes in formats that other programs read; reading them back gives the same."""
