#!/usr/bin/env python3
"""Makes the files of this folder with NumPy, ml_dtypes and safetensors, which the tests do not need:
numpy.npz and numpy_compressed.npz (np.savez), orders.npy (big endian, column-major), version2.npy
(format 2.0), ml_dtypes.npz (bf16 and f8), safetensors.safetensors."""
import ml_dtypes
import numpy as np
import safetensors.numpy

a = np.arange(6, dtype="f4").reshape(2, 3)
np.savez("numpy.npz", a=a, big=np.arange(4, dtype=">i2"), columns=np.asfortranarray(a.astype("f8").T),
         scalar=np.float16(2.5), flags=np.array([True, False]), empty=np.zeros((0, 3), "u1"))
np.savez_compressed("numpy_compressed.npz", a, zeros=np.zeros((300, 300), "f8"))
np.save("orders.npy", np.asfortranarray(np.arange(24, dtype=">i4").reshape(2, 3, 4)))
with open("version2.npy", "wb") as f:
    np.lib.format.write_array(f, np.arange(5, dtype="u8") << 60, version=(2, 0))
some = [1, -2, 0.1, 300]
np.savez("ml_dtypes.npz", bf16=np.array(some, ml_dtypes.bfloat16),
         e4m3=np.array(some, ml_dtypes.float8_e4m3fn), e5m2=np.array(some, ml_dtypes.float8_e5m2))
safetensors.numpy.save_file({
    "layers.0.weight": a, "layers.0.bias": np.array([0.5, -0.5], "f2"), "ids": np.arange(3, dtype="i8"),
    "mask": np.array([True, False]), "bytes": np.arange(3, dtype="u1"),
    "scale": np.array([1.5, -2], ml_dtypes.float8_e4m3fn), "half": np.array(some, ml_dtypes.bfloat16),
}, "safetensors.safetensors", metadata={"format": "np"})
