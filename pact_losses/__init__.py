"""The PACT terms as a torch module for any trainer; they arrive with their own issue."""
