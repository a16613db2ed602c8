"""Datasets: records, certificates, ablated contexts, files, manifests, splits and differences."""
