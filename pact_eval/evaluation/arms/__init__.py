"""Every number of an arm: cells, means over seeds, differences, comparisons and ablations.

Two sources fill this package: runs, and tables of published metrics, which have no intervals.
"""
