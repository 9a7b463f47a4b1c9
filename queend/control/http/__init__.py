"""Requests and answers of the control plane: how a route is declared, what it reads, how it answers."""
