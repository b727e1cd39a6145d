"""Decoding of pictures."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def decode_picture(content: tf.Tensor, shape: Sequence[int], *, resize: bool = False) -> tf.Tensor:
    """Decodes one PNG, JPEG, BMP or (its first frame) GIF.

    Args:
      content: scalar string.
      shape: `(height, width, channels)` of the result.
      resize: whether to scale a picture of another size; otherwise that is an error.

    Returns:
      uint8 of that shape.
    """
    height, width, channels = shape
    picture = tf.io.decode_image(content, channels=channels, expand_animations=False)
    picture.set_shape([None, None, channels])
    if resize:
        scaled = tf.image.resize(picture, [height, width], antialias=True)
        picture = tf.cast(tf.clip_by_value(tf.round(scaled), 0, 255), tf.uint8)
    else:
        found = tf.shape(picture)[:2]
        message = f"a picture is not {height} by {width}"
        with tf.control_dependencies([tf.debugging.assert_equal(found, [height, width], message)]):
            picture = tf.identity(picture)
    return tf.ensure_shape(picture, shape)
