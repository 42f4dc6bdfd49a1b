#!/usr/bin/env python3
"""Times the reading of training pictures from JPEG files, on one thread: decode, random resized crop, mirror, normalise.

Belfry, torchvision (its decoder for tensors, and PIL's) and tf.data (which decodes only the part that it crops) read the
same files in turn, after a check that they see the same pictures.

  python3 -m venv peers && peers/bin/pip install torch torchvision tensorflow-cpu pillow
  peers/bin/python benchmarks/peers/pictures.py                    generated files of 500 x 375 pixels
  peers/bin/python benchmarks/peers/pictures.py --data_dir=DIR     DIR has a folder of JPEG files for each class
"""
import argparse
import glob
import os
import random
import statistics
import sys
import tempfile

import side as sides_of

HERE = os.path.dirname(os.path.abspath(__file__))
MEAN, DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
PEERS = {"torchvision": "torchvision", "pil": "torchvision with PIL", "tf": "tf.data"}
COMPARED = 5
# Decoders differ in how they enlarge colours and filters in what they add up, most of all where pictures are noise.
ALLOWED = 0.02


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--belfry", default="build/release/benchmarks/pictures")
    parser.add_argument("--data_dir", help="default: 200 files are generated")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--size", type=int, default=224, help="height and width of an example")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--side", choices=PEERS, help=argparse.SUPPRESS)
    return parser.parse_args()


def generate(folder):
    """Files such as those of ImageNet: 500 x 375, quality 90, noise over coarse shapes."""
    import numpy
    from PIL import Image

    numbers = numpy.random.default_rng(1)
    for i in range(200):
        coarse = Image.fromarray(numbers.integers(0, 256, (9, 12, 3), dtype=numpy.uint8))
        picture = numpy.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), dtype=numpy.float32)
        picture = numpy.clip(picture + numbers.normal(0, 8, (375, 500, 1)), 0, 255).astype(numpy.uint8)
        os.makedirs(f"{folder}/{i % 10}", exist_ok=True)
        Image.fromarray(picture).save(f"{folder}/{i % 10}/{i:04}.jpg", quality=90)


def files_of(folder):
    """In Belfry's order: by class, then by path."""
    return [path for name in sorted(os.listdir(folder)) for path in sorted(glob.glob(f"{folder}/{name}/*.jpg"))]


def torchvision_side(options):
    import torch
    import torchvision
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    size = options.size

    def load(path):
        if options.side == "pil":
            from PIL import Image
            return Image.open(path).convert("RGB")
        return torchvision.io.decode_jpeg(torchvision.io.read_file(path), torchvision.io.ImageReadMode.RGB)

    ends = [v2.ToImage(), v2.ToDtype(torch.float32),  # of bytes, so that the mean is one of bytes, too
            v2.Normalize(MEAN, DEVIATION)]
    training = v2.Compose([v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()] + ends)
    middle = v2.Compose([v2.Resize(size, antialias=True), v2.CenterCrop(size)] + ends)
    files = files_of(options.data_dir)
    state = {"order": [], "batch": torch.empty(options.batch_size, 3, size, size)}

    def step():
        for i in range(options.batch_size):
            if not state["order"]:
                state["order"] = random.sample(files, len(files))
            state["batch"][i] = training(load(state["order"].pop()))

    compared = [middle(load(path)).double().square().mean().sqrt().item() for path in files[:COMPARED]]
    return compared, f"torchvision {torchvision.__version__}", step


def tf_side(options):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    size = options.size

    def normalised(picture):
        return (picture - tf.constant(MEAN)) / tf.constant(DEVIATION)

    def training(path):
        file = tf.io.read_file(path)
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(file), tf.zeros([1, 0, 4]), area_range=(0.08, 1), aspect_ratio_range=(3 / 4, 4 / 3),
            max_attempts=10, use_image_if_no_bounding_boxes=True)
        window = tf.concat([begin[:2], extent[:2]], 0)
        picture = tf.image.resize(tf.image.decode_and_crop_jpeg(file, window, channels=3), [size, size])
        return normalised(tf.image.random_flip_left_right(picture))

    def middle(path):
        picture = tf.cast(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), tf.float32)
        height, width = picture.shape[:2]
        edge = min(height, width)
        top, left = (height - edge) // 2, (width - edge) // 2
        picture = picture[top:top + edge, left:left + edge]
        return normalised(tf.image.resize(picture, [size, size], antialias=True))

    files = files_of(options.data_dir)
    dataset = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)).repeat().map(training, num_parallel_calls=1)
    dataset = dataset.batch(options.batch_size)
    one_thread = tf.data.Options()
    one_thread.threading.private_threadpool_size = 1
    batches = iter(dataset.with_options(one_thread))
    compared = [float(tf.sqrt(tf.reduce_mean(tf.square(middle(path))))) for path in files[:COMPARED]]
    return compared, f"TensorFlow {tf.__version__}", lambda: next(batches)


def serve(options):
    import serving

    before = serving.memory("RssAnon")
    compared, version, step = (tf_side if options.side == "tf" else torchvision_side)(options)
    for _ in range(2):
        step()
    serving.forget_peak()
    serving.answer({"losses": compared, "version": version}, step, lambda: serving.peak(before))


def compare(options):
    common = [f"--data_dir={options.data_dir}", f"--size={options.size}", f"--batch_size={options.batch_size}"]
    with sides_of.Sides() as sides:
        sides.append(sides_of.Side("Belfry", [options.belfry, "--serve", *common], 1))
        for peer, name in PEERS.items():
            command = [options.python, os.path.abspath(__file__), f"--side={peer}", *common]
            try:
                sides.append(sides_of.Side(name, command, 1))
            except sides_of.SideError as error:
                print(f"without {name}: {error}", file=sys.stderr)
        problem = sides_of.losses_differ(sides, allowed=ALLOWED)
        if problem:
            sys.exit(problem)
        sides_of.run_in_turn(sides, options.rounds, options.seconds, options.batch_size)
    # Rates are per second of processor time, because tf.data has several threads and other programs may run.
    speeds = [[rate / cores for rate, cores in zip(each.rates, each.cores)] for each in sides]
    for each, speed in zip(sides, speeds):
        ratio = [ours / theirs for ours, theirs in zip(speeds[0], speed)]
        print(f"{each.name:22} {statistics.median(speed):7.0f} images/s of a core [{min(speed):.0f} .. {max(speed):.0f}], "
              f"{each.peak_bytes / 2**20:.0f} MiB"
              + ("" if each is sides[0] else f"; Belfry {statistics.median(ratio):.2f} times as fast "
                 f"[{min(ratio):.2f} .. {max(ratio):.2f}]"))


def main():
    options = arguments()
    if options.side:
        return serve(options)
    with tempfile.TemporaryDirectory() as folder:
        if not options.data_dir:
            generate(folder)
            options.data_dir = folder
        compare(options)


if __name__ == "__main__":
    main()
