"""Small quantized nets for 8x8 digits, in Brevitas. `export_brevitas.py` trains and exports them."""

import brevitas.nn as qnn
import torch
from brevitas.core.restrict_val import RestrictValueType
from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat
from brevitas.quant import Int8WeightPerTensorFloat, Int16Bias, Int32Bias, Uint8ActPerTensorFloat
from brevitas.quant import SignedBinaryActPerTensorConst, SignedBinaryWeightPerTensorConst
from brevitas.quant import TruncTo8bit
from torch import nn


def weights(base, scaling):
    """A weight quantizer whose scale is any float, or a power of two."""

    class Quantizer(base):
        restrict_scaling_type = scaling

    return Quantizer


PER_TENSOR, PER_CHANNEL = Int8WeightPerTensorFloat, Int8WeightPerChannelFloat


class Mixed(nn.Module):
    """Weights of 8, 4 and 2 bits, activations of 8, 4 and 2 bits; a depthwise convolution, an addition, max pooling."""

    def __init__(self, scaling=RestrictValueType.FP):
        super().__init__()
        unsigned, signed = weights(Uint8ActPerTensorFloat, scaling), weights(Int8ActPerTensorFloat, scaling)
        tensor, channel = weights(PER_TENSOR, scaling), weights(PER_CHANNEL, scaling)

        def conv(inputs, outputs, kernel, bits, quantizer, **options):
            return qnn.QuantConv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False, weight_bit_width=bits,
                                   weight_quant=quantizer, **options)

        def relu(bits):
            return qnn.QuantReLU(act_quant=unsigned, bit_width=bits)

        self.input = qnn.QuantIdentity(act_quant=unsigned, bit_width=8)
        self.conv1, self.norm1, self.relu1 = conv(1, 8, 3, 8, tensor), nn.BatchNorm2d(8), relu(8)
        self.conv2 = conv(8, 8, 3, 4, channel, groups=8)
        self.norm2, self.relu2 = nn.BatchNorm2d(8), relu(4)
        self.conv3, self.norm3, self.relu3 = conv(8, 16, 1, 2, tensor), nn.BatchNorm2d(16), relu(4)
        self.pool = nn.MaxPool2d(2)
        self.conv4, self.norm4 = conv(16, 16, 3, 4, tensor), nn.BatchNorm2d(16)
        # One quantizer for both sides of the addition, so that they have one scale.
        self.sides = qnn.QuantIdentity(act_quant=signed, bit_width=4)
        # Biases take their scale from the products, so these values carry theirs.
        self.relu5 = qnn.QuantReLU(act_quant=unsigned, bit_width=2, return_quant_tensor=True)
        self.linear = qnn.QuantLinear(256, 10, bias=True, weight_bit_width=4, weight_quant=tensor, bias_quant=Int16Bias)

    def forward(self, x):
        x = self.relu1(self.norm1(self.conv1(self.input(x))))
        x = self.relu2(self.norm2(self.conv2(x)))
        x = self.pool(self.relu3(self.norm3(self.conv3(x))))
        x = self.relu5(self.sides(self.norm4(self.conv4(x))) + self.sides(x))
        return self.linear(x.flatten(1))


class MixedPowerOfTwo(Mixed):
    """The same with scales that are powers of two: products and sums of quantized values are exact in single precision."""

    def __init__(self):
        super().__init__(RestrictValueType.POWER_OF_TWO)


class BipolarTrunc(nn.Module):
    """Weights and activations of one bit, average pooling by truncation; batch norm gains of both signs and zero."""

    def __init__(self):
        super().__init__()
        power = RestrictValueType.POWER_OF_TWO
        self.input = qnn.QuantIdentity(act_quant=weights(Int8ActPerTensorFloat, power), bit_width=8)
        self.conv1 = qnn.QuantConv2d(1, 4, 3, bias=False, weight_quant=SignedBinaryWeightPerTensorConst, weight_scaling_const=0.25)
        self.norm1 = nn.BatchNorm2d(4)
        self.relu1 = qnn.QuantReLU(act_quant=weights(Uint8ActPerTensorFloat, power), bit_width=4, return_quant_tensor=True)
        self.pool = qnn.TruncAvgPool2d(2, trunc_quant=TruncTo8bit, bit_width=4)
        self.conv2 = qnn.QuantConv2d(4, 8, 3, bias=False, weight_bit_width=2, weight_quant=PER_CHANNEL)
        self.norm2 = nn.BatchNorm2d(8)
        self.sign2 = qnn.QuantIdentity(act_quant=SignedBinaryActPerTensorConst, scaling_const=1.0)
        self.linear = qnn.QuantLinear(8, 10, bias=False, weight_bit_width=2, weight_quant=PER_TENSOR)
        self.output = qnn.QuantIdentity(bit_width=8)
        for norm in (self.norm1, self.norm2):
            with torch.no_grad():
                channels = norm.weight.numel()
                norm.weight.copy_(torch.tensor([1.0, -0.75, 0.0, 0.5, -1.25, 0.0, 1.5, -0.25][:channels]))
                norm.bias.copy_(torch.tensor([0.25, 0.5, 0.75, -0.25, 0.125, -0.5, -0.75, 0.5][:channels]))
            # Zero gains would train away from zero.
            norm.weight.requires_grad_(False)

    def forward(self, x):
        x = self.pool(self.relu1(self.norm1(self.conv1(self.input(x)))))
        x = self.sign2(self.norm2(self.conv2(x)))
        return self.output(self.linear(x.flatten(1)))


class Binary(nn.Module):
    """Three layers of signs by signs: zeros padded around one, a maximum before the normalization, gains of both signs and zero."""

    def __init__(self):
        super().__init__()
        power = RestrictValueType.POWER_OF_TWO
        self.input = qnn.QuantIdentity(act_quant=weights(Int8ActPerTensorFloat, power), bit_width=8)
        self.layers, self.norms, self.signs = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for features, channels, padding in ((16, 1, 1), (40, 16, 1), (24, 40, 0)):
            binary = {"weight_quant": SignedBinaryWeightPerTensorConst, "weight_scaling_const": 0.25}
            self.layers.append(qnn.QuantConv2d(channels, features, 3, padding=padding, bias=False, **binary))
            norm = nn.BatchNorm2d(features)
            with torch.no_grad():
                norm.weight.copy_(torch.tensor([1.0, -0.75, 0.0, 0.5, -1.25, 1.5, 0.75, -0.25]).repeat(features // 8))
            # Zero gains would train away from zero.
            norm.weight.requires_grad_(False)
            self.norms.append(norm)
            self.signs.append(qnn.QuantIdentity(act_quant=SignedBinaryActPerTensorConst, scaling_const=1.0))
        self.linear = qnn.QuantLinear(96, 10, bias=False, **binary)

    def forward(self, x):
        x = self.input(x)
        for i, (layer, norm, sign) in enumerate(zip(self.layers, self.norms, self.signs)):
            x = layer(x)
            if i == 1:
                x = nn.functional.max_pool2d(x, 2)
            x = sign(norm(x))
        return self.linear(x.flatten(1))


class Affine(nn.Module):
    """For the export to ONNX's QuantizeLinear, Clip and DequantizeLinear: weights of 8 and 4 bits, biases of 32 bits."""

    def __init__(self):
        super().__init__()
        self.input = qnn.QuantIdentity(act_quant=Uint8ActPerTensorFloat, return_quant_tensor=True)
        self.conv1 = qnn.QuantConv2d(1, 6, 3, bias=True, weight_quant=PER_CHANNEL, bias_quant=Int32Bias)
        self.relu1 = qnn.QuantReLU(act_quant=Uint8ActPerTensorFloat, bit_width=8, return_quant_tensor=True)
        self.conv2 = qnn.QuantConv2d(6, 8, 3, bias=True, weight_bit_width=4, weight_quant=PER_TENSOR, bias_quant=Int32Bias)
        self.relu2 = qnn.QuantReLU(act_quant=Uint8ActPerTensorFloat, bit_width=4, return_quant_tensor=True)
        self.pool = nn.MaxPool2d(2)
        self.linear = qnn.QuantLinear(32, 10, bias=True, weight_quant=PER_TENSOR, bias_quant=Int32Bias)

    def forward(self, x):
        x = self.relu1(self.conv1(self.input(x)))
        x = self.pool(self.relu2(self.conv2(x)))
        return self.linear(x.flatten(1))
