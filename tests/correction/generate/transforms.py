# SPDX-License-Identifier: Apache-2.0
"""What torchvision's functional operations make of UINT8 images, with given parameters.

A case is NAME.image [H, W, C], NAME.params (I32 or F32, by the file) and NAME.result [h, w, C]. Factors of colours are
multiples of 1 / 65536 and hues of 1 / 393216, as the library has them.
"""

import torch
import torchvision
import torchvision.transforms.v2.functional as F
from torchvision.transforms import autoaugment
from torchvision.transforms import functional
from torchvision.transforms import v2
from torchvision.transforms.functional import InterpolationMode

FACTOR_ONE, HUE_TURN = 65536, 6 * 65536


def picture(generator, height, width, channels, noise=40):
    """Smooth in the large, noisy in the small, and all values from 0 to 255."""
    y = torch.linspace(0, 1, height)[:, None, None]
    x = torch.linspace(0, 1, width)[None, :, None]
    phase = torch.rand(3, channels, generator=generator) * 6.28
    waves = torch.sin(9 * x + phase[0]) + torch.sin(7 * y + phase[1]) + torch.sin(5 * (x + y) + phase[2])
    values = 128 + 60 * waves + noise * torch.randn(height, width, channels, generator=generator)
    return values.round().clamp(0, 255).to(torch.uint8).permute(2, 0, 1).contiguous()


class Cases:
    def __init__(self):
        self.tensors, self.count = {}, 0

    def add(self, image, params, result, dtype=torch.int32):
        name = f"{self.count:03d}"
        self.tensors[f"{name}.image"] = image.permute(1, 2, 0)
        self.tensors[f"{name}.params"] = torch.tensor(params, dtype=dtype)
        self.tensors[f"{name}.result"] = result.permute(1, 2, 0)
        self.count += 1

    def save(self, writer, name):
        writer.save(name, self.tensors, torchvision=torchvision.__version__)


def resize(writer, generator):
    """params: height, width, filter (0 triangle, 1 cubic), antialias."""
    for channels, antialias in ((1, True), (1, False), (3, True), (3, False)):
        cases = Cases()
        for height, width, to in (
            (23, 31, (11, 13)), (23, 31, (40, 37)), (23, 31, (23, 31)), (19, 30, (19, 7)), (40, 9, (3, 30)),
            (1, 1, (5, 4)), (2, 50, (7, 7)), (61, 47, (5, 6)),
        ):
            image = picture(generator, height, width, channels)
            for mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC):
                result = F.resize(image, list(to), mode, antialias=antialias)
                cases.add(image, [*to, int(mode == InterpolationMode.BICUBIC), int(antialias)], result)
        cases.save(writer, f"transform_resize_{'antialias' if antialias else 'plain'}_{channels}")


def crops(writer, generator):
    """params: 0 size (center_crop); 1 padding fill mode (pad); 2 (flip left and right); 3 (top and bottom);
    4 size (Resize of the shorter side, antialias)."""
    cases = Cases()
    for shape in ((12, 17, 3), (17, 12, 1), (9, 9, 3)):
        image = picture(generator, *shape)
        for size in (1, 6, 7, 9, 12, 15, 18, 20):
            cases.add(image, [0, size], F.center_crop(image, [size]))
        for mode, name in enumerate(("constant", "edge", "reflect", "symmetric")):
            cases.add(image, [1, 3, 77, mode], F.pad(image, [3], fill=77, padding_mode=name))
        cases.add(image, [2], F.horizontal_flip(image))
        cases.add(image, [3], F.vertical_flip(image))
        cases.add(image, [4, 7], F.resize(image, [7], antialias=True))
    cases.save(writer, "transform_crops")


def adjust(image, op, factor):
    if op == 3:
        hue = factor / HUE_TURN
        return F.adjust_hue(image, hue - 1 if hue > 0.5 else hue)
    function = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation)[op]
    return function(image, factor / FACTOR_ONE)


def colors(writer, generator):
    """params: operation, factor; operation, factor; ... One operation, and all four in some order."""
    cases = Cases()
    for channels in (3, 1):
        image = picture(generator, 12, 15, channels)
        for op in range(3):
            for factor in (0, 1, 32001, 65536, 65537, 80000, 104857, 144001, 640000):
                cases.add(image, [op, factor], adjust(image, op, factor))
    image = picture(generator, 12, 15, 3)
    for turn in (0, 1, 6401, 39322, 65536, 196608, 196609, 320000, 393215):
        cases.add(image, [3, turn], adjust(image, 3, turn))
    gray = picture(generator, 12, 15, 1).expand(3, 12, 15).contiguous()
    cases.add(gray, [3, 80000], adjust(gray, 3, 80000))
    cases.add(image, [4, 0], F.rgb_to_grayscale(image, num_output_channels=3))
    cases.add(image, [5, 0], F.autocontrast(image))
    low = (picture(generator, 12, 15, 3) // 5 + 60).contiguous()
    low[1] = 99  # one value only
    cases.add(low, [5, 0], F.autocontrast(low))
    cases.save(writer, "transform_colors")

    cases = Cases()
    for _ in range(20):
        image = picture(generator, 18, 22, 3)
        order = torch.randperm(4, generator=generator).tolist()
        params, result = [], image
        for op in order:
            high = torch.randint(0, HUE_TURN, (1,), generator=generator)
            low = torch.randint(39322, 91750, (1,), generator=generator)
            factor = int(high if op == 3 else low)
            params += [op, factor]
            result = adjust(result, op, factor)
        cases.add(image, params, result)
    cases.save(writer, "transform_jitter")


def affine(writer, generator):
    """params (F32): degrees (clockwise), right, down, scale, shear x, shear y, interpolation, fill."""
    cases = Cases()
    for params in (
        [0, 0, 0, 1, 0, 0], [30, 0, 0, 1, 0, 0], [-75.5, 3, -2, 1, 0, 0], [10, 0, 0, 0.6, 0, 0], [0, 5, 4, 1.7, 0, 0],
        [0, 0, 0, 1, 20, 0], [0, 0, 0, 1, 0, -15], [12, -3, 6, 0.9, 10, 8], [180, 0, 0, 1, 0, 0], [5, 60, 0, 1, 0, 0],
    ):
        for shape in ((18, 23, 3), (14, 14, 1)):
            image = picture(generator, *shape, noise=6)
            for number, mode in enumerate((InterpolationMode.NEAREST, InterpolationMode.BILINEAR)):
                fill = 0 if number else 50
                values = None if number else [50.0] * shape[2]  # a fill of BILINEAR is blended in twice there
                result = F.affine(image, params[0], params[1:3], params[3], params[4:6], mode, fill=values)
                cases.add(image, [*params, number, fill], result, torch.float32)
    cases.save(writer, "transform_affine")


def blur(writer, generator):
    """params (F32): sigma, kernel size."""
    cases = Cases()
    for sigma, kernel in ((0.1, 3), (0.5, 5), (1.0, 7), (2.0, 13), (1.3, 3), (5.0, 15)):
        for channels in (1, 3):
            image = picture(generator, 17, 24, channels)
            cases.add(image, [sigma, kernel], F.gaussian_blur(image, [kernel, kernel], [sigma, sigma]), torch.float32)
    cases.save(writer, "transform_blur")


def augment(writer, generator):
    """params (F32): operation, strength. The strengths of both spaces at some steps are in `space`:
    [space][operation][bin of 0, 9, 17, 30], of an image of 14 x 19."""
    cases, height, width = Cases(), 14, 19
    spaces = [
        autoaugment.RandAugment()._augmentation_space(31, (height, width)),
        autoaugment.TrivialAugmentWide()._augmentation_space(31),
    ]
    augmentation, rows = v2.RandAugment(), []
    for space in spaces:
        for number, (name, (magnitudes, signed)) in enumerate(space.items()):
            strengths = [float(magnitudes[b]) if magnitudes.ndim else 0.0 for b in (0, 9, 17, 30)]
            rows.append([float(int(s)) if name.startswith("Translate") else s for s in strengths])
            for index, strength in enumerate(strengths[1:]):
                for channels in (3, 1):
                    if channels == 1 and index != 0:
                        continue
                    signed_strength = -strength if signed and index == 1 else strength
                    image = picture(generator, height, width, channels, noise=12)
                    given = signed_strength / 255 if name == "Solarize" else signed_strength
                    result = augmentation._apply_image_or_video_transform(
                        image, name, given, InterpolationMode.NEAREST, {torch.Tensor: [70.0] * channels}
                    )
                    cases.add(image, [number, signed_strength], result, torch.float32)
    for part in range(3):
        some = {k: v for k, v in cases.tensors.items() if int(k[:3]) * 3 // cases.count == part}
        writer.save(f"transform_augment_{part}", some, torchvision=torchvision.__version__)
    writer.save(
        "transform_augment_space", {"space": torch.tensor(rows).reshape(2, 14, 4)}, torchvision=torchvision.__version__
    )


def mixing(writer, generator):
    """Images [n, H, W, C] FP32 and labels; lambda or the box (left, top, right, bottom) and lambda."""
    images = torch.randn(5, 3, 8, 10, generator=generator)
    labels = torch.tensor([2, 0, 1, 1, 3])
    tensors = {"images": images.permute(0, 2, 3, 1), "labels": labels.to(torch.int32)}
    for number, lam in enumerate((0.0, 0.3, 0.875, 1.0)):
        params = {"labels": labels, "batch_size": 5, "lam": lam}
        transform = v2.MixUp(num_classes=4)
        tensors[f"mixup_{number}.lambda"] = torch.tensor([lam])
        tensors[f"mixup_{number}.images"] = transform.transform(images, params).permute(0, 2, 3, 1)
        tensors[f"mixup_{number}.labels"] = transform.transform(labels, params)
    box, lam = (3, 1, 8, 6), 1 - 25 / 80
    params = {"labels": labels, "batch_size": 5, "box": box, "lam_adjusted": lam}
    transform = v2.CutMix(num_classes=4)
    tensors["cutmix.box"] = torch.tensor(box, dtype=torch.int32)
    tensors["cutmix.images"] = transform.transform(images, params).permute(0, 2, 3, 1)
    tensors["cutmix.labels"] = transform.transform(labels, params)
    writer.save("transform_mixing", tensors, torchvision=torchvision.__version__)


# What the library draws for samples 0, 1, ... of an image of 18 x 23 at (seed 11, epoch 3), step 0; the test holds
# them against its draws. Crops: top, left of RandomCrop 11, 20, 30. Regions and rectangles: top, left, height, width.
CROPS = [[(1, 7), (2, 1), (4, 0)], [(-1, 2), (-1, 0), (-1, 0)], [(-6, -3), (-6, -3), (-6, -3)]]
REGIONS = [(1, 9, 10, 11), (4, 0, 14, 11), (0, 1, 18, 14), (5, 3, 11, 9)]
FAST_REGIONS = [(1, 11, 7, 8), (7, 0, 10, 8), (3, 2, 13, 10), (8, 4, 8, 6)]
ANGLES = [-39.45784, -23.4349747, 6.29137421, -46.680397]
SCALED = [(22, 19), (12, 21), (12, 26), (13, 18)]
ERASED = [(1, 10, 7, 6), (5, 7, 8, 4), (0, 1, 10, 5), (1, 0, 14, 9)]


def drawn(writer, generator):
    """params (F32): kind, sample, numbers of the kind, then what is drawn. 0 RandomCrop size; 1 RandomResizedCrop and
    2 FastRandomResizedCrop size; 3 RandomRotation limit; 4 RandomScale; 5 RandomResizedCrop size that finds no region."""
    cases = Cases()

    def add(params, make, noise=40):
        for channels in (3, 1):
            image = picture(generator, 18, 23, channels, noise=noise)
            cases.add(image, params, make(image), torch.float32)

    for size, places in zip((11, 20, 30), CROPS):
        for sample, (top, left) in enumerate(places):
            add([0, sample, size, top, left], lambda image: F.crop(image, top, left, size, size))
    for kind, regions in ((1, REGIONS), (2, FAST_REGIONS)):
        for sample, region in enumerate(regions):
            add([kind, sample, 9, *region], lambda image: F.resized_crop(image, *region, [9, 9], antialias=kind == 1))
    for sample, angle in enumerate(ANGLES):
        add([3, sample, 70, angle], lambda image: F.rotate(image, angle, InterpolationMode.BILINEAR), noise=6)
    for sample, (height, width) in enumerate(SCALED):
        def scaled(image):  # a surplus of 3, 7, ... is cut by F.center_crop a pixel farther to the right or below
            resized = F.resize(image, [height, width], antialias=False)
            padded = F.center_crop(resized, [max(height, 18), max(width, 23)])
            return F.crop(padded, max(height - 18, 0) // 2, max(width - 23, 0) // 2, 18, 23)
        add([4, sample, height, width], scaled)
    add([5, 0, 9], v2.RandomResizedCrop(9, scale=(1, 1), ratio=(1, 1), antialias=True))
    cases.save(writer, "transform_drawn")

    tensors, mean, std = {}, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    for sample, (top, left, height, width) in enumerate(ERASED):
        image = picture(generator, 18, 23, 3)
        floats = functional.normalize(functional.to_tensor(image.permute(1, 2, 0).numpy()), mean, std)
        result = functional.erase(floats, top, left, height, width, torch.tensor(0.0))
        tensors[f"{sample}.image"] = image.permute(1, 2, 0)
        tensors[f"{sample}.rect"] = torch.tensor([top, left, height, width], dtype=torch.int32)
        tensors[f"{sample}.result"] = result.permute(1, 2, 0)
    writer.save("transform_erased", tensors, torchvision=torchvision.__version__)


def write(writer, generator):
    for part in (resize, crops, colors, affine, blur, augment, mixing, drawn):
        part(writer, generator)
