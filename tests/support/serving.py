# SPDX-License-Identifier: Apache-2.0
"""Serves exported models in a process where adaptcp_tf cannot be imported, only TFRA."""

import json

import numpy as np
from tensorflow.core.protobuf import saved_model_pb2

from tests.support import processes

_SERVE = """
import json, sys
sys.modules["adaptcp_tf"] = None  # an import raises ImportError
import numpy as np
import tensorflow as tf
from tensorflow_recommenders_addons import dynamic_embedding
answers = []
for directory, signature, inputs in json.loads(sys.argv[1]):
    serve = tf.saved_model.load(directory).signatures[signature]
    specs = serve.structured_input_signature[1]
    given = {name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()}
    outputs = serve(**given)
    answers.append({name: value.numpy().tobytes().hex() for name, value in outputs.items()})
print(json.dumps(answers))
"""


def serve(*calls):
    """Loads SavedModels and calls them.

    Args:
        calls: triples of a directory, the name of a signature, and its inputs as arrays by name.

    Returns:
        The outputs of each call: bytes by name.
    """
    arguments = [
        (str(directory), signature, {name: np.asarray(v).tolist() for name, v in inputs.items()})
        for directory, signature, inputs in calls
    ]
    output = processes.run(_SERVE, json.dumps(arguments)).stdout
    answers = json.loads(output.splitlines()[-1])
    return [{name: bytes.fromhex(v) for name, v in answer.items()} for answer in answers]


def ops_of(directory):
    """The names of all ops in the graph and the functions of a SavedModel."""
    path = directory / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    graphs = [meta_graph.graph_def for meta_graph in model.meta_graphs]
    nodes = [node for graph in graphs for node in graph.node]
    nodes += [
        n for graph in graphs for function in graph.library.function for n in function.node_def
    ]
    return {node.op for node in nodes}
