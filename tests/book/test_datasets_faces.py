"""AT&T's faces: what corrupt images say, and smaller images."""

import numpy as np
import pytest
from acvbook import datasets


def test_a_pgm_is_read():
    image = datasets.read_pgm(b"P5\n3 2\n255\n" + bytes(range(6)), "a.pgm")
    np.testing.assert_array_equal(image, [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.pgm, line 1: b'' is not P5"),
        (b"P2\n3 2\n255\n", "a.pgm, line 1: b'P2' is not P5"),
        (b"P5\n3\n255\n", "a.pgm, line 2: b'3' is not a width and a height"),
        (b"P5\n3 2\nx\n", "a.pgm, line 3: b'x' is not the largest grey value"),
        (b"P5\n3 2\n65535\n", "a.pgm, line 3: the largest grey value is 65535, not 255"),
        (b"P5\n3 2\n255\n12345", "a.pgm, line 4: 5 pixels, not 3 x 2"),
    ],
)
def test_a_corrupt_pgm_is_named(content, message):
    with pytest.raises(datasets.DataCorrupt, match=message):
        datasets.read_pgm(content, "a.pgm")


def test_smaller_images_are_means_of_squares():
    faces = datasets.simulate_att_faces(np.random.default_rng(0))
    assert repr(faces) == "Faces(400 images of 40 people, 112 x 92, simulated)"
    small = faces.reduced(4).take(np.arange(20))
    assert small.images.shape == (20, 28, 23)
    np.testing.assert_allclose(small.images[3, 0, 1], faces.images[3, :4, 4:8].mean())
    with pytest.raises(ValueError, match="factor = 5 does not divide 112 x 92"):
        faces.reduced(5)


@pytest.mark.parametrize(
    ("images", "person", "message"),
    [
        (np.zeros((2, 3, 3)), np.zeros(3), "one person"),
        (np.full((1, 1, 1), 2.0), np.zeros(1), "not within 0 ... 1"),
    ],
)
def test_bad_tables(images, person, message):
    with pytest.raises(ValueError, match=message):
        datasets.Faces(images, person, "simulated", "")
