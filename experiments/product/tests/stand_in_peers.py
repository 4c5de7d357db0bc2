"""Stands in for Humming and gemlite, which need a GPU: their names, formats and products."""

import sys
import types

import torch


def held(codes, zero, scales):
    n, k = codes.shape
    groups = codes.float().view(n, scales.shape[1], -1)
    return ((groups - zero) * scales[..., None].float()).view(n, k)


class Schema:
    def dequant_tensors(self, tensors):
        return held(tensors["weight"], 0, tensors["weight_scale"])


class HummingLayer(torch.nn.Module):
    """As Humming's: signed 4-bit codes, a scale of the weight of the largest magnitude."""

    def __init__(self, shape_n, shape_k, weight_config, torch_dtype):
        super().__init__()
        assert weight_config["dtype"] == "int4" and torch_dtype == torch.float16
        self.group, self.weight_schema, self.is_ready = weight_config["group_size"], Schema(), False

    def load_from_unquantized(self, weight):
        groups = weight.float().view(weight.shape[0], -1, self.group)
        at = groups.abs().argmax(2, keepdim=True)
        scales = (groups.gather(2, at) / -8).half()
        codes = (groups / scales.float()).round().clamp(-8, 7).view(weight.shape)
        self.register_buffer("weight", codes)
        self.register_buffer("weight_scale", scales[..., 0])

    def transform(self):
        self.is_ready = True

    def forward(self, x):
        assert self.is_ready
        weights = Schema().dequant_tensors(self.state_dict())
        return (x.float() @ weights.T).half()


class GemLiteLinear(torch.nn.Module):
    def __init__(self, bits, group_size, in_features, out_features, input_dtype, output_dtype):
        super().__init__()
        assert (bits, input_dtype, output_dtype) == (4, "fp16", "fp16")
        self.shape, self.group = (out_features, in_features), group_size

    def pack(self, codes, scales, zeros, bias):
        assert codes.dtype == torch.uint8 and codes.shape == self.shape and bias is None
        assert scales.shape == zeros.shape == (self.shape[0], self.shape[1] // self.group)
        assert scales.dtype == zeros.dtype == torch.float16
        shift = (-zeros.float() * scales.float()).half()
        scale, shift = (v.repeat_interleave(self.group, 1).float() for v in (scales, shift))
        self.weights = (codes.float() * scale + shift).half()

    def forward(self, x):
        return (x.float() @ self.weights.float().T).half()


def put(monkeypatch):
    humming = types.SimpleNamespace(HummingLayer=HummingLayer)
    monkeypatch.setitem(sys.modules, "humming", types.ModuleType("humming"))
    monkeypatch.setitem(sys.modules, "humming.layer", humming)
    dtypes = types.SimpleNamespace(FP16="fp16")
    gemlite = types.SimpleNamespace(DType=dtypes, GemLiteLinear=GemLiteLinear)
    monkeypatch.setitem(sys.modules, "gemlite", gemlite)
