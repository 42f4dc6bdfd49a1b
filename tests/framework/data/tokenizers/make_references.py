#!/usr/bin/env python3
"""Writes the tokenizers beside it, and references.json with the tokens that Hugging Face's `tokenizers` makes of texts.

Usage: make_references.py, with the package `tokenizers` 0.23 of PyPI. The vocabulary is learned from docs/*.md.
"""

import json
import pathlib
import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


# The pre-tokenizer, and whether a word that is a token is not merged.
KINDS = {
    "gpt2": (pre_tokenizers.ByteLevel(add_prefix_space=False), False),
    "roberta": (pre_tokenizers.ByteLevel(add_prefix_space=True), False),
    "llama3": (split(LLAMA3), True),
    "qwen2": (split(LLAMA3.replace("{1,3}", "")), False),
}


def train(pre_tokenizer, ignore_merges):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    texts = [path.read_text() for path in sorted(HERE.glob("../../../../docs/*.md"))]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"],
        show_progress=False))
    return tokenizer


def texts():
    fixed = [
        "", "The model isn't trained; we'll train it.\nIt's DON'T and I\u017fn'\u017f.", "  two  spaces   ",
        "1234567 \u00b2\u2167", "line\r\n\r\n  next\n", "K\u00f6ln \u20ac \U0001f642 \U0001f469\u200d\U0001f680",
        "\u65e5\u672c\u8a9e\u3000\u3068 English", "a\u0301 \u0915\u094d\u0937", "one<|endoftext|>two", "a <mask> b",
        "x<pad>  y", "<|end", "the new york timesthe", "!" * 40, "\u0000\u007f", "a" * 300,
        "    return x;\n\n\n    }", "...\n\n,,,  \n", "\u00a0\u00a0x\u2003\u2003",
    ]
    random.seed(1)
    characters = [c for c in map(chr, range(0x20000)) if unicodedata.category(c) not in ("Cn", "Co", "Cs")]
    parts = ["'s", "'LL", " ", "  ", "\n", "\r\n", "\t", "foo", "the ", "Z", "12", "<|endoftext|>", "<mask>", "!", "'"]

    def part():
        return random.choice(parts if random.random() < 0.7 else characters)

    return fixed + ["".join(part() for _ in range(random.randint(1, 20))) for _ in range(80)]


def main():
    cases = [{"text": text} for text in texts()]
    for kind, (pre_tokenizer, ignore_merges) in KINDS.items():
        tokenizer = train(pre_tokenizer, ignore_merges)
        if kind == "gpt2":
            tokenizer.model.save(str(HERE))  # vocab.json, merges.txt
        if kind == "roberta":
            tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<pad>", rstrip=True)])
            tokenizer.add_tokens(["new york", "<|end"])
        (HERE / f"{kind}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False) + "\n")
        for case in cases:
            case[kind] = tokenizer.encode(case["text"], add_special_tokens=False).ids
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (HERE / "references.json").write_text(f"[{lines}]\n")


if __name__ == "__main__":
    main()
