"""How well entities are found: F1 of whole entities by seqeval, the standard scorer's count."""

import pandas as pd


def as_tags(numbers, names):
    """Tag names of each sentence, lists of strings as seqeval wants them."""
    return [[names[number] for number in sentence] for sentence in numbers]


def entity_scores(true, predicted, names):
    """Precision, recall, F1 and number of entities by type,
    then over all entities ("micro avg"), a DataFrame.

    true, predicted: tag numbers (T_n,) of each sentence; names: the tags in IOB2. As in conlleval,
    an entity counts where its type and both its ends are right, and an I- that follows no entity of
    its type begins one.
    """
    from seqeval.metrics import classification_report

    pair = as_tags(true, names), as_tags(predicted, names)
    table = pd.DataFrame(classification_report(*pair, output_dict=True, zero_division=0)).T
    table = table.drop(["macro avg", "weighted avg"]).rename(
        columns={"f1-score": "F1", "support": "entities"}
    )
    return table.astype({"entities": int})
