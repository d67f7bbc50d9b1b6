"""The image and the chart: linted, rendered, and installed with Helm."""
