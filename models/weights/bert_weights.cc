#include "models/weights/foreign_weights.h"

namespace belfry::models {
namespace {

using enum WeightLayout;

// Files that were converted from TensorFlow have gamma and beta for the weight and bias of normalisations.
constexpr WeightRule kBertRules[] = {
    {"embeddings.word_embeddings.weight", "token_embedding"},
    {"embeddings.position_embeddings.weight", "position_embedding"},
    {"embeddings.token_type_embeddings.weight", "type_embedding"},
    {"embeddings.LayerNorm.weight", "embedding_norm/gamma"},
    {"embeddings.LayerNorm.bias", "embedding_norm/beta"},
    {"embeddings.LayerNorm.gamma", "embedding_norm/gamma"},
    {"embeddings.LayerNorm.beta", "embedding_norm/beta"},
    {"encoder.layer.#.attention.self.query.weight", "layer{0}/attention/qkv/weights", kOutIn, 0, 3},
    {"encoder.layer.#.attention.self.key.weight", "layer{0}/attention/qkv/weights", kOutIn, 1, 3},
    {"encoder.layer.#.attention.self.value.weight", "layer{0}/attention/qkv/weights", kOutIn, 2, 3},
    {"encoder.layer.#.attention.self.query.bias", "layer{0}/attention/qkv/biases", kSame, 0, 3},
    {"encoder.layer.#.attention.self.key.bias", "layer{0}/attention/qkv/biases", kSame, 1, 3},
    {"encoder.layer.#.attention.self.value.bias", "layer{0}/attention/qkv/biases", kSame, 2, 3},
    {"encoder.layer.#.attention.output.dense.weight", "layer{0}/attention/output/weights", kOutIn},
    {"encoder.layer.#.attention.output.dense.bias", "layer{0}/attention/output/biases"},
    {"encoder.layer.#.attention.output.LayerNorm.weight", "layer{0}/attention_norm/gamma"},
    {"encoder.layer.#.attention.output.LayerNorm.bias", "layer{0}/attention_norm/beta"},
    {"encoder.layer.#.attention.output.LayerNorm.gamma", "layer{0}/attention_norm/gamma"},
    {"encoder.layer.#.attention.output.LayerNorm.beta", "layer{0}/attention_norm/beta"},
    {"encoder.layer.#.intermediate.dense.weight", "layer{0}/mlp/hidden/weights", kOutIn},
    {"encoder.layer.#.intermediate.dense.bias", "layer{0}/mlp/hidden/biases"},
    {"encoder.layer.#.output.dense.weight", "layer{0}/mlp/output/weights", kOutIn},
    {"encoder.layer.#.output.dense.bias", "layer{0}/mlp/output/biases"},
    {"encoder.layer.#.output.LayerNorm.weight", "layer{0}/mlp_norm/gamma"},
    {"encoder.layer.#.output.LayerNorm.bias", "layer{0}/mlp_norm/beta"},
    {"encoder.layer.#.output.LayerNorm.gamma", "layer{0}/mlp_norm/gamma"},
    {"encoder.layer.#.output.LayerNorm.beta", "layer{0}/mlp_norm/beta"},
    {"pooler.dense.weight", "pooler/weights", kOutIn},
    {"pooler.dense.bias", "pooler/biases"},
};

constexpr WeightRules kBertWeights = {"BERT of Hugging Face", "embeddings.word_embeddings.weight", "bert.", kBertRules};

}  // namespace

const WeightRules& BertWeights() { return kBertWeights; }

}  // namespace belfry::models
