"""The derived sidecar: slices, embeddings, the LanceDB table, search. All of it can be deleted and made again."""
