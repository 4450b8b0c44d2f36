"""Small vocabularies of each kind over the same words, for the tests of what is done to vocabularies."""

import string

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE, WordPiece
from transformers import PreTrainedTokenizerFast

from tiny import TEXTS

CONTROL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = string.ascii_lowercase + "äöüßйабвгдежзиклмнопрстуфхцчшщъыьэюяё"


def wordpiece(
    words: tuple[str, ...] = (), inside: tuple[str, ...] = (), lowercase: bool = True, texts: list[str] = TEXTS
) -> PreTrainedTokenizerFast:
    """BERT's kind of tokenizer: every letter both at the start of and inside a word, the words of `texts`, and more."""
    seen = {word.strip(".") for text in texts for word in (text.lower() if lowercase else text).split()}
    letters = LETTERS if lowercase else LETTERS + LETTERS.upper()
    pieces = [*CONTROL, "[unused0]", ".", ",", "漢", *letters, *(f"##{letter}" for letter in letters)]
    pieces += sorted((seen | set(words)) - set(pieces))
    pieces += [f"##{piece}" for piece in inside if f"##{piece}" not in pieces]
    backend = Tokenizer(WordPiece({piece: row for row, piece in enumerate(pieces)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    )


def byte_level(texts: list[str] = TEXTS, size: int = 400) -> PreTrainedTokenizerFast:
    """GPT-2's and RoBERTa's kind of tokenizer, trained on the spot; padding is row 0."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<pad>", "<s>", "</s>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        mask_token="<mask>",
        model_max_length=64,
    )
