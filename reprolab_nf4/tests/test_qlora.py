"""QLoRA as docs/drop-in.md shows it, on a GPU: the same losses, to the bit, with the drop-in."""

import pytest

import reprolab_nf4

torch = pytest.importorskip("torch", reason="NOT TESTED, no torch")
bitsandbytes = pytest.importorskip("bitsandbytes", reason="NOT TESTED, no bitsandbytes")
transformers = pytest.importorskip("transformers", reason="NOT TESTED, no transformers")
peft = pytest.importorskip("peft", reason="NOT TESTED, no PEFT")
if not torch.cuda.is_available():
    pytest.skip("NOT TESTED, no GPU", allow_module_level=True)

SIZES = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 2, "vocab_size": 512}
SIZES |= {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 128}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    model.bfloat16().save_pretrained(folder)
    return folder


def losses(checkpoint, checkpointing, nested):
    """Three steps."""
    how = transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_use_double_quant=nested,
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        checkpoint, quantization_config=how, device_map={"": "cuda"}, attn_implementation="eager"
    )
    model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpointing)
    torch.manual_seed(2)
    model = peft.get_peft_model(model, peft.LoraConfig(target_modules="all-linear"))
    model.train()
    steps = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
    tokens = torch.randint(0, SIZES["vocab_size"], (2, 8), device="cuda")
    values = []
    for _ in range(3):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        steps.step()
        steps.zero_grad()
        values.append(loss.item())
    return values


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("checkpointing", [True, False])
def test_losses_are_the_same_to_the_bit(checkpoint, built_library, checkpointing, nested):
    own = losses(checkpoint, checkpointing, nested)
    assert losses(checkpoint, checkpointing, nested) == own  # as reproducible as bitsandbytes
    assert own[2] < own[0]
    for products in ("fastest", "exact", "dequantize"):
        with reprolab_nf4.install(built_library, products=products):
            assert losses(checkpoint, checkpointing, nested) == own, products
