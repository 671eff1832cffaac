"""The audit of word vectors for bias: association tests, directions, debiasing, and what all of it does not show."""

from regard.vectors.bias.analogies import AnalogyAnswer, AnalogyPair, analogy_answers, analogy_pairs
from regard.vectors.bias.association import (
    Association,
    association_test,
    association_test_of_texts,
    effect_size,
    word_associations,
)
from regard.vectors.bias.association_lists import AssociationTest, NamedWords, read_association_tests
from regard.vectors.bias.audit import Audit, DirectionAudit, audit, audit_of_texts, direction_audit
from regard.vectors.bias.clusters import ClusterTest, cluster_test
from regard.vectors.bias.debiasing import Leftover, hard_debiased, leftover, spellings
from regard.vectors.bias.effects import AssociationChange, Change, DebiasingEffects, debiasing_effects
from regard.vectors.bias.lists import GENDER_PAIRS, OCCUPATIONS, read_word_sets, read_words
from regard.vectors.bias.permutations import Permutation, permutation_test
from regard.vectors.bias.projections import Projection, direct_bias, indirect_bias, projections, random_direct_bias
from regard.vectors.bias.properties import PropertyAssociation, property_association
from regard.vectors.bias.sentences import sentence_means
from regard.vectors.bias.subspace import BiasSubspace, bias_subspace

__all__ = [
    "GENDER_PAIRS",
    "OCCUPATIONS",
    "AnalogyAnswer",
    "AnalogyPair",
    "Association",
    "AssociationChange",
    "AssociationTest",
    "Audit",
    "BiasSubspace",
    "Change",
    "ClusterTest",
    "DebiasingEffects",
    "DirectionAudit",
    "Leftover",
    "NamedWords",
    "Permutation",
    "Projection",
    "PropertyAssociation",
    "analogy_answers",
    "analogy_pairs",
    "association_test",
    "association_test_of_texts",
    "audit",
    "audit_of_texts",
    "bias_subspace",
    "cluster_test",
    "debiasing_effects",
    "direct_bias",
    "direction_audit",
    "effect_size",
    "hard_debiased",
    "indirect_bias",
    "leftover",
    "permutation_test",
    "projections",
    "property_association",
    "random_direct_bias",
    "read_association_tests",
    "read_word_sets",
    "read_words",
    "sentence_means",
    "spellings",
    "word_associations",
]
