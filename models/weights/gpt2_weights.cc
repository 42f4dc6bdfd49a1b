#include "models/weights/foreign_weights.h"

namespace belfry::models {
namespace {

// Its matrices are [in, out], as ours.
constexpr WeightRule kGpt2Rules[] = {
    {"wte.weight", "token_embedding"},
    {"wpe.weight", "position_embedding"},
    {"h.#.ln_1.weight", "layer{0}/attention_norm/gamma"},
    {"h.#.ln_1.bias", "layer{0}/attention_norm/beta"},
    {"h.#.attn.c_attn.weight", "layer{0}/attention/qkv/weights"},
    {"h.#.attn.c_attn.bias", "layer{0}/attention/qkv/biases"},
    {"h.#.attn.c_proj.weight", "layer{0}/attention/output/weights"},
    {"h.#.attn.c_proj.bias", "layer{0}/attention/output/biases"},
    {"h.#.ln_2.weight", "layer{0}/mlp_norm/gamma"},
    {"h.#.ln_2.bias", "layer{0}/mlp_norm/beta"},
    {"h.#.mlp.c_fc.weight", "layer{0}/mlp/hidden/weights"},
    {"h.#.mlp.c_fc.bias", "layer{0}/mlp/hidden/biases"},
    {"h.#.mlp.c_proj.weight", "layer{0}/mlp/output/weights"},
    {"h.#.mlp.c_proj.bias", "layer{0}/mlp/output/biases"},
    {"ln_f.weight", "final_norm/gamma"},
    {"ln_f.bias", "final_norm/beta"},
};

constexpr WeightRules kGpt2Weights = {"GPT-2 of Hugging Face", "h.0.attn.c_attn.weight", "transformer.", kGpt2Rules};

}  // namespace

const WeightRules& Gpt2Weights() { return kGpt2Weights; }

}  // namespace belfry::models
