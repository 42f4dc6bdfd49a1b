#!/usr/bin/env python3
"""The benchmark models in TensorFlow on the CPU: a tf.function for the whole step, or the same compiled by XLA."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf  # noqa: E402

import networks  # noqa: E402
import serving  # noqa: E402


class Ops:
    """Images are [N, H, W, C]. Weights have the dtype that the model computes in."""
    relu = staticmethod(tf.nn.relu)

    def __init__(self, dtype):
        self.dtype = dtype

    def convolution(self, x, weights, biases, stride=1):
        y = tf.nn.conv2d(x, tf.cast(weights, self.dtype), stride, "SAME")
        return y if biases is None else tf.nn.bias_add(y, tf.cast(biases, self.dtype))

    @staticmethod
    def max_pool(x):
        return tf.nn.max_pool2d(x, 3, 2, "SAME")

    @staticmethod
    def local_response_norm(x):
        # The op supports float32 only.
        return tf.cast(tf.nn.lrn(tf.cast(x, tf.float32), 4, 1, 0.001 / 9, 0.75), x.dtype)

    @staticmethod
    def flatten(x):
        return tf.reshape(x, [x.shape[0], -1])

    def dense(self, x, weights, biases):
        return tf.nn.bias_add(tf.matmul(x, tf.cast(weights, self.dtype)), tf.cast(biases, self.dtype))

    @staticmethod
    def batch_norm(x, p, name):
        mean, variance = p[f"{name}/moving_mean"], p[f"{name}/moving_variance"]
        y, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=p[f"{name}/gamma"], offset=p[f"{name}/beta"], mean=mean, variance=variance, epsilon=1e-5,
            exponential_avg_factor=0.1, is_training=True)
        mean.assign(new_mean)
        variance.assign(new_variance)
        return y

    @staticmethod
    def half_size_twice_the_channels(x):
        half = x.shape[3] // 2
        return tf.pad(x[:, ::2, ::2, :], [[0, 0], [0, 0], [0, 0], [half, half]])

    @staticmethod
    def mean_of_image(x):
        return tf.reduce_mean(x, [1, 2])

    @staticmethod
    def cross_entropy(logits, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))
        return tf.reduce_mean(losses)

    @staticmethod
    def mean_square(x):
        return tf.reduce_mean(tf.square(x))

    @staticmethod
    def sum_of_squares(x):
        return 2 * tf.nn.l2_loss(x)


def build(options):
    problem = serving.read_problem(options.problem)
    ops = Ops(tf.as_dtype(options.dtype))
    inputs, labels = tf.constant(problem["inputs"]), tf.constant(problem["labels"])
    p = {name: tf.Variable(value, trainable=networks.is_trained(name)) for name, value in problem.items()
         if networks.is_trained(name) or networks.is_statistic(name)}
    trained = [variable for name, variable in p.items() if networks.is_trained(name)]
    slots = [tf.Variable(tf.zeros_like(variable)) for variable in trained]

    @tf.function(jit_compile=options.xla)
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            narrow = inputs if options.model == "s5" else tf.cast(inputs, ops.dtype)
            loss = networks.loss(ops, options.model, p, narrow, labels)
        for variable, slot, gradient in zip(trained, slots, tape.gradient(loss, trained)):
            if networks.has_momentum(options.model):
                tf.raw_ops.ResourceApplyMomentum(var=variable.handle, accum=slot.handle, lr=networks.LEARNING_RATE,
                                                 grad=gradient, momentum=networks.MOMENTUM)
            else:
                variable.assign_sub(networks.LEARNING_RATE * gradient)
        return loss

    return lambda: step(inputs, labels), lambda: None


def main():
    parser = serving.parser(__doc__)
    parser.add_argument("--xla", action="store_true", help="compile the step with XLA")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    serving.serve(networks.compared_losses(options.model), lambda: build(options), f"TensorFlow {tf.__version__}")


if __name__ == "__main__":
    main()
