"""The SPARQL protocol: results, names as IRIs, and a description of the service."""
