#!/usr/bin/env python3
"""Times a layer of LSTM, or of gated recurrent units, in Belfry and in PyTorch (torch.nn.LSTM and GRU), in turn, after
checking that both compute the same.

  benchmarks/peers/lstm.py --python=build/peers/venv/bin/python --threads=1,2
"""
import layer


def make(options, n, t, inputs, units):
    import torch

    columns = (3 if options.gru else 4) * units
    scale = 2 / units**0.5
    dy, x = layer.numbers((n, t, units), 0), layer.numbers((n, t, inputs), 1)
    network = (torch.nn.GRU if options.gru else torch.nn.LSTM)(inputs, units, batch_first=True)
    with torch.no_grad():
        network.weight_ih_l0.copy_(layer.numbers((inputs, columns), 2, scale).T)
        network.weight_hh_l0.copy_(layer.numbers((units, columns), 3, scale).T)
        network.bias_ih_l0.copy_(layer.numbers((columns,), 4))
        network.bias_hh_l0.copy_(layer.numbers((columns,), 5) if options.gru else torch.zeros(columns))
    return [x, *network.parameters()], dy, lambda: network(x)[0]


def main():
    parser = layer.parser(__doc__, "lstm", "32x64x256x256,32x128x512x512,1x128x128x512",
                          "batch x length x inputs x units")
    parser.add_argument("--gru", action="store_true", help="gated recurrent units")
    options = parser.parse_args()
    layer.run(options, __file__, make, ["--gru"] * options.gru, ["batch_size", "length", "inputs", "units"],
              lambda shape: f"{'GRU' if options.gru else 'LSTM'} {shape:>16}")


if __name__ == "__main__":
    main()
