"""The head that names hidden tokens: transformers' own, for any architecture that has one."""

import copy
import logging
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from juzhen.core.errors import UserError
from juzhen.encoders.locate import has_weights
from juzhen.encoders.packing import FILL_TO
from juzhen.encoders.transformer import quiet

log = logging.getLogger(__name__)


class _StatesInstead(nn.Module):
    """Stands where the transformer was: gives what came in as if it were the transformer's output."""

    def forward(self, *unused: object, inputs_embeds: Tensor, **more: object) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=inputs_embeds)


class MaskedTokenHead(nn.Module):
    """Token states → logits over the vocabulary, as the architecture's `…ForMaskedLM` computes them.

    Its transformer is taken out and the states are handed in, so only the tokens of interest go through it: no
    token's logits depend on another one's. The output matrix is the backbone's own embedding table where the
    architecture ties the two.
    """

    def __init__(self, backbone: PreTrainedModel) -> None:
        super().__init__()
        self.model = _with_head(backbone)
        if backbone.config.get_text_config().tie_word_embeddings:
            self.model.get_output_embeddings().weight = backbone.get_input_embeddings().weight
        setattr(self.model, self.model.base_model_prefix, _StatesInstead())
        self.train()  # what comes from a folder is set to be used, not to learn

    def forward(self, states: Float[Tensor, "some dim"]) -> Float[Tensor, "some vocabulary"]:
        rows = len(states)
        # Every step hides another number of tokens, and a bf16 product on a CPU keeps code for each shape.
        missing = -rows % FILL_TO if states.device.type == "cpu" else 0
        return self.model(inputs_embeds=F.pad(states, (0, 0, 0, missing)).unsqueeze(0)).logits[0, :rows]


def _with_head(backbone: PreTrainedModel) -> PreTrainedModel:
    """The masked language model of the backbone's architecture; its head from the folder, if that holds one.

    Otherwise the head is drawn from torch's generator. Raises UserError for an architecture without such a head.
    """
    architecture = copy.deepcopy(backbone.config)
    if type(architecture) not in AutoModelForMaskedLM._model_mapping:
        raise UserError(
            f"{architecture.model_type} has no masked language model in transformers; "
            "choose an encoder such as BERT, RoBERTa, DistilBERT or ModernBERT"
        )
    # The stand-in takes no masks, so the plainest attention will do.
    architecture._attn_implementation = "eager"
    folder = Path(backbone.name_or_path) if backbone.name_or_path else None
    with quiet():
        if folder is None or not folder.is_dir() or not has_weights(folder):
            return AutoModelForMaskedLM.from_config(architecture, dtype=torch.float32)
        model, report = AutoModelForMaskedLM.from_pretrained(
            folder,
            config=architecture,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,
            output_loading_info=True,
        )
    if report["missing_keys"]:
        log.info("%s holds no head for masked tokens; a new one is trained", folder)
    return model
