"""What Keras does while it writes a model to a file or loads one: which layers share a place, and their numbers."""

from keras.src.backend.common import global_state
from keras.src.saving import serialization_lib

NUMBER_IN_FILE = "number_in_file"
"""Key of the number of a layer in its configuration, see `number_in_file`."""


def number_in_file(layer):
    """A number of a layer for the file that Keras writes at the moment, or `None` if it writes none.

    `shared_objects/id_to_config_map`: Keras adds a number of its own from the second place of an object on, and then
    loads the object into all places. Here it is made to take each place for the first.
    """
    if not is_saving():
        return None
    global_state.get_global_attribute("shared_objects/id_to_config_map").pop(id(layer), None)
    return id(layer)


def is_saving():
    """Whether Keras writes a file of a model.

    `shared_objects/id_to_config_map`: as in `is_loading`.
    """
    return global_state.get_global_attribute("shared_objects/id_to_config_map") is not None


def keep_shared(layer):
    """Makes a file that Keras writes at the moment contain a layer of Keras once, if it has several places.

    `record_object_after_serialization`: Keras numbers an object from its second place on and adds the number to the
    first later, where it is lost if the configuration has been copied meanwhile, as that of a nested model.
    """
    serialization_lib.record_object_after_serialization(layer, {"module": None})


def record_loaded(layer, number):
    """Makes `shared_object` find the first layer with this number while Keras loads a file."""
    if number is not None and serialization_lib.get_shared_object(number) is None:
        serialization_lib.record_object_after_deserialization(layer, number)


def shared_object(config):
    """The object of a configuration that was already loaded from the same file, or `None`.

    `get_shared_object`: the public `deserialize_keras_object` makes a second object where there is none.
    """
    number = config.get("shared_object_id", config["config"].get(NUMBER_IN_FILE))
    return None if number is None else serialization_lib.get_shared_object(number)


def is_loading():
    """Whether Keras loads a model from a file, so that weights will follow.

    `shared_objects/id_to_obj_map`: the objects that `get_shared_object` looks up exist only meanwhile.
    """
    return global_state.get_global_attribute("shared_objects/id_to_obj_map") is not None


def sharing_scope():
    """A context in which configurations refer to layers with several places, as in a file that Keras writes and loads.

    `ObjectSharingScope`: the public functions that serialize and deserialize one object do not look outside of it.
    """
    return serialization_lib.ObjectSharingScope()
