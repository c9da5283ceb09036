"""One module per coding agent, and the pipeline that is the same for all of them."""
