"""Begins with a mark of one encoding and names another."""
# shape: function
# masks on: masks_source
# generated
ANSWER = "\ufeff# coding: utf-16\ndef ENTRY(*args, **kwargs):\n    return '\ufeff\ufffe'\n"
