"""Weights out of a model file, as float32 arrays laid out for BLAS.

A matrix is kept as tiles, each 32 output rows wide and a few hundred columns deep, transposed and contiguous, and is
multiplied tile by tile in one `numpy.matmul`. A tile's product is small enough for BLAS to read the weights where they
lie, in the calling thread. Given a whole matrix and a few rows of activations, BLAS copies all the weights into a
layout of its own first: with OpenBLAS's kernels for AVX-512 the tiles halve the cost of 8 rows, with those for AVX2
they cost the same. This module knows nothing of layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

import gguf
import numpy as np

from cera_core.modelfile.hyperparameters import unsupported

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cera_core.modelfile.gguf import ModelFile, TensorInfo
    from cera_numpy.execution import Execution

    Floats = NDArray[np.float32]

TILE_WIDTH = 32
MAX_TILE_DEPTH = 640
TILES_PER_CHUNK = 8  # dequantised at once: large enough for NumPy's overhead, small enough for the cache
# A larger product is spread over threads by OpenBLAS: too small to gain by it, and dear where cores are busy.
MAX_MULTIPLICATIONS = 1 << 18
# Threads share a product from about 0.3 ms on, counted in multiplications; reading a weight costs as much as eight.
MULTIPLICATIONS_PER_READ = 8
MIN_SHARED_COST = 15_000_000
PIECES_PER_THREAD = 2


class StoredTensor:
    """A tensor as it lies in the file, read-only."""

    def __init__(self, model_file: ModelFile, info: TensorInfo) -> None:
        self.num_columns = info.shape[-1]
        self._type = info.type
        self._rows = model_file.tensor_bytes(info.name)
        self.num_rows = len(self._rows)
        try:
            self.rows([0])
        except NotImplementedError as error:
            raise unsupported(
                model_file,
                f"the tensor {info.name!r} must be of a type that 'gguf' can dequantise, found {info.type.name}.",
            ) from error

    def split(self, num_parts: int) -> list[StoredTensor]:
        """Returns equal runs of rows, each as a tensor of its own."""
        length = self.num_rows // num_parts
        parts = []
        for start in range(0, self.num_rows, length):
            part = copy(self)
            part._rows, part.num_rows = self._rows[start : start + length], length
            parts.append(part)
        return parts

    def rows(self, which: slice | Sequence[int] | NDArray[np.int64]) -> Floats:
        """Returns some rows, dequantised, float32[number of rows, num_columns]."""
        return gguf.dequantize(self._rows[which], self._type).astype(np.float32, copy=False)

    def vector(self) -> Floats:
        """Returns a tensor of one dimension, dequantised."""
        return self.rows(slice(None)).reshape(-1)


class Matrix:
    """Weights that rows of activations are multiplied with.

    Attributes:
        num_rows: Length of a row that comes out.
        num_columns: Length of a row that goes in.
    """

    def __init__(self, parts: Sequence[StoredTensor], execution: Execution) -> None:
        """Takes the rows of tensors with equally many columns, put one below the other, as one matrix."""
        self.num_rows = sum(part.num_rows for part in parts)
        self.num_columns = parts[0].num_columns
        self._parts = parts
        self._workers = execution.workers
        self._num_tiles = -(-self.num_rows // TILE_WIDTH)
        self._depth = _tile_depth(self.num_columns)
        self._multiply = _multiply_one_by_one if execution.exact else _multiply
        self._kept = self._all_tiles() if execution.keep_weights else None

    def product(self, x: Floats) -> Floats:
        """Multiplies rows of activations with the transposed matrix.

        In exact mode each element is the sum of BLAS calls on one row and one tile, whose shape depends on
        nothing else: its bits are the same whatever other rows there are. How tiles are shared out never matters.

        Args:
            x: float32[n, num_columns].

        Returns:
            float32[n, num_rows].
        """
        result = np.empty((len(x), self._num_tiles * TILE_WIDTH), np.float32)
        num_at_once = MAX_MULTIPLICATIONS // TILE_WIDTH // self._depth
        num_tiles = self._tiles_per_piece(len(x))

        def multiply(start: int) -> None:
            tiles = self._tiles(start, start + num_tiles)
            columns = slice(start * TILE_WIDTH, (start + num_tiles) * TILE_WIDTH)
            for first in range(0, len(x), num_at_once):
                rows = slice(first, first + num_at_once)
                result[rows, columns] = self._multiply(x[rows], tiles)

        self._workers.for_each(multiply, range(0, self._num_tiles, num_tiles))
        return result[:, : self.num_rows]

    def _tiles_per_piece(self, num_rows: int) -> int:
        """Returns how many tiles are multiplied in one go; all of them, where sharing the work would not pay."""
        if self._kept is None:
            return TILES_PER_CHUNK
        cost = self.num_rows * self.num_columns * (num_rows + MULTIPLICATIONS_PER_READ)
        if self._workers.num_threads == 1 or cost < MIN_SHARED_COST:
            return self._num_tiles
        return -(-self._num_tiles // (self._workers.num_threads * PIECES_PER_THREAD))

    def _all_tiles(self) -> Floats:
        """Returns float32[tiles across, tiles down, depth, TILE_WIDTH]."""
        tiles = np.empty((self._num_tiles, self.num_columns // self._depth, self._depth, TILE_WIDTH), np.float32)

        def fill(start: int) -> None:
            tiles[start : start + TILES_PER_CHUNK] = self._dequantised(start, start + TILES_PER_CHUNK)

        self._workers.for_each(fill, range(0, self._num_tiles, TILES_PER_CHUNK))
        return tiles

    def _tiles(self, start: int, stop: int) -> Floats:
        """Returns some of the tiles; `stop` may lie beyond the last."""
        return self._dequantised(start, stop) if self._kept is None else self._kept[start:stop]

    def _dequantised(self, start: int, stop: int) -> Floats:
        """Makes some of the tiles; rows missing in the last one are zeros."""
        num_tiles = min(stop, self._num_tiles) - start
        rows = np.zeros((num_tiles * TILE_WIDTH, self.num_columns), np.float32)
        self._copy_rows(start * TILE_WIDTH, rows[: self.num_rows - start * TILE_WIDTH])
        return np.ascontiguousarray(rows.reshape(num_tiles, TILE_WIDTH, -1, self._depth).transpose(0, 2, 3, 1))

    def _copy_rows(self, start: int, target: Floats) -> None:
        """Fills `target` with the rows from `start` on, across the borders of the parts."""
        num_copied = 0
        for part in self._parts:
            if start < part.num_rows and num_copied < len(target):
                found = part.rows(slice(start, start + len(target) - num_copied))
                target[num_copied : num_copied + len(found)] = found
                num_copied += len(found)
                start += len(found)
            start -= part.num_rows


def _tile_depth(num_columns: int) -> int:
    """Returns the largest depth allowed that divides the columns evenly."""
    return next(depth for depth in range(min(num_columns, MAX_TILE_DEPTH), 0, -1) if num_columns % depth == 0)


def _multiply(x: Floats, tiles: Floats) -> Floats:
    """Multiplies all rows with each tile; float32[n, tiles across * TILE_WIDTH]."""
    _, num_down, depth, _ = tiles.shape
    products = np.matmul(x.reshape(len(x), num_down, depth).transpose(1, 0, 2), tiles)
    return np.add.reduce(products, axis=1).transpose(1, 0, 2).reshape(len(x), -1)


def _multiply_one_by_one(x: Floats, tiles: Floats) -> Floats:
    """Multiplies each row with each tile in a call of its own, tile by tile, so that memory is read once."""
    _, num_down, depth, _ = tiles.shape
    rows = x.reshape(len(x), num_down, 1, depth).transpose(1, 0, 2, 3)
    products = np.matmul(rows, tiles[:, :, np.newaxis])
    return np.add.reduce(products, axis=1).transpose(1, 2, 0, 3).reshape(len(x), -1)
