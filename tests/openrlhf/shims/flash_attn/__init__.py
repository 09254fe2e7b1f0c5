"""Stands in for flash-attn, which needs CUDA to be built, so that OpenRLHF's modules can be imported."""
