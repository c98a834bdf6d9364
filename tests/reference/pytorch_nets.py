"""The small nets whose exports and training steps are the PyTorch fixtures.

Every net takes one image batch (or one feature batch) and gives logits, unless
its docstring says otherwise. They are as small as their subject allows.
"""

import torch
import torch.nn.functional as F
from torch import nn


class LeNet(nn.Module):
    """Convolution, ReLU, max pooling, flatten, dense. Input [N, 1, 16, 16]."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 4, 5, padding=2)
        self.c2 = nn.Conv2d(4, 6, 5)
        self.f1 = nn.Linear(24, 16)
        self.f2 = nn.Linear(16, 12)
        self.f3 = nn.Linear(12, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = torch.flatten(x, 1)
        return self.f3(F.relu(self.f2(F.relu(self.f1(x)))))


class LeNetSmooth(nn.Module):
    """LeNet as first published in kind: tanh, sigmoid, average pooling. Input [N, 1, 16, 16]."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 4, 5, padding=2)
        self.c2 = nn.Conv2d(4, 6, 5)
        self.f1 = nn.Linear(24, 12)
        self.f2 = nn.Linear(12, 10)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.c1(x)), 2)
        x = F.avg_pool2d(torch.sigmoid(self.c2(x)), 2)
        return self.f2(torch.tanh(self.f1(x.flatten(1))))


class AsymmetricPadding(nn.Module):
    """Strided convolutions with unequal padding: a padding layer, a padding call, "same" for even
    kernels, and the 1x7 and 7x1 kernels padded along one axis. Input [N, 2, 13, 11]."""

    def __init__(self):
        super().__init__()
        self.pad = nn.ZeroPad2d((1, 0, 2, 1))
        self.c1 = nn.Conv2d(2, 4, 3, stride=2)
        self.c2 = nn.Conv2d(4, 4, (1, 7), padding=(0, 3))
        self.c3 = nn.Conv2d(4, 4, (7, 1), padding=(3, 0), stride=(1, 2), bias=False)
        self.c4 = nn.Conv2d(4, 5, (2, 4), padding="same")
        self.c5 = nn.Conv2d(5, 6, (3, 2), stride=(3, 2))
        self.f = nn.Linear(6 * 2 * 2, 5)

    def forward(self, x):
        x = F.relu(self.c1(self.pad(x)))
        x = F.relu(self.c3(F.relu(self.c2(x))))
        x = F.relu(self.c4(x))
        x = F.relu(self.c5(F.pad(x, (0, 1, 1, 0))))
        return self.f(x.flatten(1))


class Grouped(nn.Module):
    """Grouped convolution, and depthwise (multiplier 1 and 2) with pointwise. Input [N, 4, 10, 10]."""

    def __init__(self):
        super().__init__()
        self.grouped = nn.Conv2d(4, 6, 3, padding=1, groups=2)
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, stride=2, groups=6)
        self.pointwise = nn.Conv2d(6, 5, 1)
        self.doubling = nn.Conv2d(5, 10, 3, padding=1, groups=5, bias=False)
        self.f = nn.Linear(10, 6)

    def forward(self, x):
        x = F.relu(self.grouped(x))
        x = F.relu(self.pointwise(self.depthwise(x)))
        x = F.relu(self.doubling(x))
        return self.f(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Dilated(nn.Module):
    """Dilated convolutions, equal and unequal along the axes, one also strided. Input [N, 2, 14, 14]."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(2, 4, 3, dilation=2, padding=2)
        self.c2 = nn.Conv2d(4, 4, 3, dilation=(1, 3), padding=(1, 2), stride=2)
        self.c3 = nn.Conv2d(4, 5, 2, dilation=3)
        self.f = nn.Linear(5 * 4 * 3, 5)

    def forward(self, x):
        x = F.relu(self.c1(x))
        x = F.relu(self.c2(x))
        return self.f(F.relu(self.c3(x)).flatten(1))


class Pooling(nn.Module):
    """Pooling whose stride is not its kernel: maximum in ceil mode, padded and dilated; average that
    counts and that does not count its padding. Input [N, 2, 16, 15]."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(2, 4, 3, padding=1)
        self.c2 = nn.Conv2d(4, 4, 3, padding=1)
        self.f1 = nn.Linear(4 * 3 * 3, 6)
        self.f2 = nn.Linear(4 * 4 * 4, 6)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 3, stride=2, ceil_mode=True)
        x = F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
        x = self.c2(x)
        a = F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=True)
        b = F.avg_pool2d(x, (2, 3), stride=(3, 2), padding=(1, 0), count_include_pad=False, ceil_mode=True)
        c = F.max_pool2d(x, 2, stride=2, padding=1, dilation=2)
        a = F.max_pool2d(a, 2, stride=1)
        return self.f1(b.flatten(1)) + self.f2(c.flatten(1)) + self.f2(F.pad(a, (0, 1, 0, 1)).flatten(1))


class Inception(nn.Module):
    """Branches of 1x1, 3x3 and pooling, joined by concatenation, twice. Input [N, 3, 9, 9]."""

    def __init__(self):
        super().__init__()
        self.a1 = nn.Conv2d(3, 3, 1)
        self.a2 = nn.Conv2d(3, 2, 1)
        self.a3 = nn.Conv2d(2, 3, 3, padding=1)
        self.a4 = nn.Conv2d(3, 2, 1)
        self.b1 = nn.Conv2d(8, 4, 3, stride=2)
        self.b2 = nn.Conv2d(8, 3, 3, stride=2)
        self.f = nn.Linear(15, 5)

    def forward(self, x):
        x = torch.cat(
            [
                F.relu(self.a1(x)),
                F.relu(self.a3(F.relu(self.a2(x)))),
                F.relu(self.a4(F.avg_pool2d(x, 3, stride=1, padding=1))),
            ],
            1,
        )
        x = torch.cat([F.relu(self.b1(x)), F.relu(self.b2(x)), F.max_pool2d(x, 3, stride=2)], 1)
        return self.f(x.mean((2, 3)))


class Residual(nn.Module):
    """Residual blocks with batch norm after each convolution, one with a strided projection.
    Input [N, 3, 10, 10]."""

    FOLDS = (("c0", "b0"), ("c1", "b1"), ("c2", "b2"), ("c3", "b3"), ("c4", "b4"), ("down", "down_norm"))

    def __init__(self):
        super().__init__()
        self.c0 = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.b0 = nn.BatchNorm2d(4)
        self.c1 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(4)
        self.c2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(4)
        self.c3 = nn.Conv2d(4, 6, 3, padding=1, stride=2, bias=False)
        self.b3 = nn.BatchNorm2d(6)
        self.c4 = nn.Conv2d(6, 6, 3, padding=1, bias=False)
        self.b4 = nn.BatchNorm2d(6, eps=1e-3, momentum=0.3)
        self.down = nn.Conv2d(4, 6, 1, stride=2, bias=False)
        self.down_norm = nn.BatchNorm2d(6)
        self.f = nn.Linear(6, 5)

    def forward(self, x):
        x = F.relu(self.b0(self.c0(x)))
        y = self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        x = F.relu(x + y)
        y = self.b4(self.c4(F.relu(self.b3(self.c3(x)))))
        x = F.relu(self.down_norm(self.down(x)) + y)
        return self.f(F.adaptive_avg_pool2d(x, 1).flatten(1))


class PreActivation(nn.Module):
    """Residual blocks with batch norm before the activation and the convolution, so that most batch
    norm layers cannot be folded into a convolution. Input [N, 3, 8, 8]."""

    FOLDS = (("c1", "b1"),)

    def __init__(self):
        super().__init__()
        self.c0 = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.b0 = nn.BatchNorm2d(4)
        self.c1 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(4)
        self.c2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(4)
        self.c3 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.b3 = nn.BatchNorm2d(4)
        self.f = nn.Linear(4, 5)

    def forward(self, x):
        x = self.c0(x)
        y = self.c1(F.relu(self.b0(x)))
        x = x + self.c2(F.relu(self.b1(y)))
        x = x + self.c3(F.relu(self.b2(x)))
        return self.f(F.relu(self.b3(x)).mean((2, 3)))


class Mobile(nn.Module):
    """MobileNetV2's inverted residuals: expand, depthwise, project, with batch norm and ReLU6.
    `pool` is "global" (a pooling layer) or "mean" (a reduction). Input [N, 3, 12, 12]."""

    FOLDS = tuple((f"c{i}", f"b{i}") for i in range(7))

    def __init__(self, pool="global"):
        super().__init__()
        self.pool = pool
        shapes = [(3, 4, 3, 2, 1), (4, 8, 1, 1, 1), (8, 8, 3, 1, 8), (8, 4, 1, 1, 1)]
        shapes += [(4, 8, 1, 1, 1), (8, 8, 3, 2, 8), (8, 6, 1, 1, 1)]
        for i, (inputs, outputs, kernel, stride, groups) in enumerate(shapes):
            conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
            setattr(self, f"c{i}", conv)
            setattr(self, f"b{i}", nn.BatchNorm2d(outputs))
        self.act = nn.ReLU6()
        self.f = nn.Linear(6, 5)

    def part(self, i, x):
        return getattr(self, f"b{i}")(getattr(self, f"c{i}")(x))

    def forward(self, x):
        x = self.act(self.part(0, x * 3))
        x = x + self.part(3, self.act(self.part(2, self.act(self.part(1, x)))))
        x = self.part(6, self.act(self.part(5, self.act(self.part(4, x)))))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1) if self.pool == "global" else x.mean([2, 3])
        return self.f(x)


class DropoutNet(nn.Module):
    """Dropout of channels' values and of features. Input [N, 2, 8, 8]."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(2, 4, 3, padding=1)
        self.f1 = nn.Linear(64, 10)
        self.d1 = nn.Dropout(0.25)
        self.f2 = nn.Linear(10, 5)
        self.d2 = nn.Dropout(0.5)

    def forward(self, x):
        x = self.d1(F.max_pool2d(F.relu(self.c(x)), 2))
        return self.f2(self.d2(F.relu(self.f1(x.flatten(1)))))


class Mlp(nn.Module):
    """Dense layers only, with leaky ReLU. Input [N, 12]."""

    def __init__(self):
        super().__init__()
        self.f1 = nn.Linear(12, 16)
        self.f2 = nn.Linear(16, 14, bias=False)
        self.f3 = nn.Linear(14, 7)

    def forward(self, x):
        x = F.leaky_relu(self.f1(x), 0.1)
        return self.f3(F.relu(self.f2(x)))


class SequenceMlp(nn.Module):
    """Dense layers on the last of three axes, then a mean over the middle one. Input [N, 6, 8]."""

    def __init__(self):
        super().__init__()
        self.f1 = nn.Linear(8, 10)
        self.f2 = nn.Linear(10, 8)
        self.f3 = nn.Linear(8, 5)

    def forward(self, x):
        x = x + self.f2(F.relu(self.f1(x)))
        return self.f3(x.mean(1))


class LogProbabilities(nn.Module):
    """Ends in log softmax: the output is log probabilities, the loss is NLL. Input [N, 2, 8, 8]."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.f = nn.Linear(64, 6)

    def forward(self, x):
        return F.log_softmax(self.f(F.relu(self.c(x)).flatten(1)), 1)


class LossInside(nn.Module):
    """Takes the labels too and gives the logits and the mean loss. Input [N, 2, 8, 8], labels [N]."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.f = nn.Linear(64, 6)

    def forward(self, x, labels):
        logits = self.f(F.relu(self.c(x)).flatten(1))
        return logits, F.cross_entropy(logits, labels)


class LargeLeNet(nn.Module):
    """LeNet with the published widths. Input [N, 1, 28, 28]."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 5, padding=2)
        self.c2 = nn.Conv2d(6, 16, 5)
        self.f1 = nn.Linear(400, 120)
        self.f2 = nn.Linear(120, 84)
        self.f3 = nn.Linear(84, 10)

    forward = LeNet.forward


class TextClassifier(nn.Module):
    """Embedded tokens, a convolution along the sentence, the mean over what is no padding. Input: tokens [N, 7], 0 for none."""

    INTEGERS = 11

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.c1 = nn.Conv1d(6, 5, 3, padding=1)
        self.f = nn.Linear(5, 4)

    def forward(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        x = torch.where(x > 0.5, x * 0.5 + 0.25, x)
        x = F.mish(self.c1(x))
        present = (tokens != 0).unsqueeze(1).float()
        return self.f((x * present).sum(2) / (present.sum(2) + 1))


class Upsampling(nn.Module):
    """Down and up again: transposed convolutions with groups, padding and more output, bilinear and nearest
    resizing. Input [N, 2, 8, 8], scores by the mean over the picture."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.t1 = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.t2 = nn.ConvTranspose2d(6, 4, 2, stride=1, bias=False)
        self.slopes = nn.PReLU(4)
        self.c2 = nn.Conv2d(4, 5, 3)

    def forward(self, x):
        x = F.elu(self.c1(x))
        x = F.softplus(self.t1(x))
        x = self.slopes(self.t2(x))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = F.interpolate(x, size=(13, 11), mode="bilinear", align_corners=True)
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        return self.c2(x).mean((2, 3))


class Recurrent(nn.Module):
    """A GRU and a bidirectional LSTM, one after the other, last step. Input [N, 5, 3]."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 4, batch_first=True)
        self.lstm = nn.LSTM(4, 3, batch_first=True, bidirectional=True)
        self.f = nn.Linear(6, 4)

    def forward(self, x):
        x, _ = self.gru(x)
        x, _ = self.lstm(x)
        return self.f(x[:, -1] + x[:, 0])


class GroupNorms(nn.Module):
    """Normalization by group and by channel, pixel shuffling, squared distances. Input [N, 3, 6, 6]."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, padding=1)
        self.n1 = nn.GroupNorm(4, 8)
        self.c2 = nn.Conv2d(2, 6, 3, stride=2)
        self.n2 = nn.InstanceNorm2d(6, affine=True)
        self.f = nn.Linear(6, 4)

    def forward(self, x):
        x = F.selu(self.n1(self.c1(x)))
        x = F.softsign(self.n2(self.c2(F.pixel_shuffle(x, 2))))
        x = torch.einsum("nchw,nchw->nc", x, x)
        return self.f(F.normalize(torch.logsumexp(x.unsqueeze(2), 2), dim=1))


class Shuffled(nn.Module):
    """ShuffleNet's units: halves of the channels, joined and shuffled; then an adaptive pool to windows of unequal sizes, as
    AlexNet gets it for small images. Input [N, 3, 10, 10]."""

    def __init__(self):
        super().__init__()
        self.c0 = nn.Conv2d(3, 8, 3, padding=1)
        self.c1 = nn.Conv2d(4, 4, 1)
        self.c2 = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.b2 = nn.BatchNorm2d(4)
        self.f = nn.Linear(8 * 9, 5)

    def forward(self, x):
        kept, x = F.relu(self.c0(x)).chunk(2, dim=1)
        x = torch.cat((kept, F.relu(self.b2(self.c2(self.c1(x))))), dim=1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return self.f(F.adaptive_avg_pool2d(x, (3, 3)).flatten(1))


class Excited(nn.Module):
    """MobileNetV3's and EfficientNet's blocks: squeeze and excitation by a hard sigmoid and by a sigmoid, hard swish and
    SiLU. Input [N, 3, 8, 8]."""

    def __init__(self):
        super().__init__()
        self.c0 = nn.Conv2d(3, 6, 3, stride=2, padding=1, bias=False)
        self.b0 = nn.BatchNorm2d(6, momentum=0.01, eps=0.001)
        self.s1, self.e1 = nn.Conv2d(6, 2, 1), nn.Conv2d(2, 6, 1)
        self.s2, self.e2 = nn.Conv2d(6, 3, 1), nn.Conv2d(3, 6, 1)
        self.c2 = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.f = nn.Linear(6, 5)

    def forward(self, x):
        x = F.hardswish(self.b0(self.c0(x)))
        x = x * F.hardsigmoid(self.e1(F.relu(self.s1(F.adaptive_avg_pool2d(x, 1)))))
        x = x + F.silu(self.c2(x))
        x = torch.sigmoid(self.e2(F.silu(self.s2(F.adaptive_avg_pool2d(x, 1))))) * x
        return self.f(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Attending(nn.Module):
    """ViT's encoder: patches, a class token, positions, attention of two heads, GELU; then ConvNeXt's block with its norm
    over channels behind a permutation and its layer scale. Input [N, 3, 8, 8]."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(0.1 * torch.randn(1, 5, 8))
        self.n1, self.n2, self.n3 = nn.LayerNorm(8, eps=1e-6), nn.LayerNorm(8), nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.f1, self.f2 = nn.Linear(8, 12), nn.Linear(12, 8)
        self.c3 = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.scale = nn.Parameter(torch.full((8, 1, 1), 0.5) + 0.1 * torch.randn(8, 1, 1))
        self.f = nn.Linear(16, 5)
        for norm in (self.n1, self.n2, self.n3):
            nn.init.normal_(norm.weight, 1.0, 0.2)
            nn.init.normal_(norm.bias, 0.0, 0.2)
        nn.init.normal_(self.attention.in_proj_bias)
        nn.init.normal_(self.attention.out_proj.bias)

    def forward(self, x):
        n = x.shape[0]
        x = self.patches(x).reshape(n, 8, 4).permute(0, 2, 1)
        x = torch.cat([self.token.expand(n, -1, -1), x], dim=1) + self.positions
        y = self.n1(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y
        x = x + self.f2(F.gelu(self.f1(self.n2(x))))
        image = x[:, 1:].permute(0, 2, 1).reshape(n, 8, 2, 2)
        block = self.n3(self.c3(image).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        image = image + self.scale * block
        return self.f(torch.cat([x[:, 0], image.mean([-2, -1])], dim=1))


class Windows(nn.Module):
    """Swin's shifted windows: rolled images, attention in windows with a mask and a table of position biases that is read
    by index, patches merged. Input [N, 3, 8, 8]."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 6, 2, stride=2)
        self.n1, self.n2 = nn.LayerNorm(6), nn.LayerNorm(24)
        self.qkv, self.out = nn.Linear(6, 18), nn.Linear(6, 6)
        self.table = nn.Parameter(0.2 * torch.randn(9, 2))
        rows = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        steps = (rows[:, :, None] - rows[:, None, :]).permute(1, 2, 0) + 1
        self.register_buffer("offsets", (steps[..., 0] * 3 + steps[..., 1]).flatten())
        self.reduction = nn.Linear(24, 8, bias=False)
        self.f = nn.Linear(8, 5)
        for norm in (self.n1, self.n2):
            nn.init.normal_(norm.weight, 1.0, 0.2)
            nn.init.normal_(norm.bias, 0.0, 0.2)

    def attend(self, x):
        n = x.shape[0]
        x = torch.roll(x, shifts=(-1, -1), dims=(1, 2))
        x = x.view(n, 2, 2, 2, 2, 6).permute(0, 1, 3, 2, 4, 5).reshape(n * 4, 4, 6)
        q, k, v = self.qkv(x).reshape(n * 4, 4, 3, 2, 3).permute(2, 0, 3, 1, 4)
        scores = (q * 3**-0.5).matmul(k.transpose(-2, -1))
        scores = scores + self.table[self.offsets].view(4, 4, 2).permute(2, 0, 1).contiguous().unsqueeze(0)
        mask = x.new_zeros((4, 4))
        parts = ((0, -2), (-2, -1), (-1, None))
        for i, rows in enumerate(parts):
            for j, columns in enumerate(parts):
                mask[rows[0]:rows[1], columns[0]:columns[1]] = 3 * i + j
        mask = mask.view(2, 2, 2, 2).permute(0, 2, 1, 3).reshape(4, 4)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        scores = scores.view(n, 4, 2, 4, 4) + mask.unsqueeze(1).unsqueeze(0)
        scores = F.softmax(scores.view(-1, 2, 4, 4), dim=-1)
        x = self.out(scores.matmul(v).transpose(1, 2).reshape(n * 4, 4, 6))
        x = x.view(n, 2, 2, 2, 2, 6).permute(0, 1, 3, 2, 4, 5).reshape(n, 4, 4, 6)
        return torch.roll(x, shifts=(1, 1), dims=(1, 2))

    def forward(self, x):
        x = self.patches(x).permute(0, 2, 3, 1)
        x = x + self.attend(self.n1(x))
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], dim=-1)
        x = self.reduction(self.n2(x))
        return self.f(F.gelu(x.mean([1, 2])))
