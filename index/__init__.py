"""The derived sidecar: slices, embeddings, the LanceDB table, search. All of it can be deleted and made again."""

import os

# Libraries below this package phone home unless told not to before they are imported: ONNX Runtime would keep a device
# id and a queue of events in the user's cache folder and send them to its maker.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
