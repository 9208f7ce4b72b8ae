"""Preprocessors: scalers, encoders and the like, one file per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor, PreprocessorNotFittedError
    from skate.data.preprocessors.chain import BatchMapper, Chain
    from skate.data.preprocessors.columns import (
        Concatenator,
        SimpleImputer,
        TorchVisionPreprocessor,
    )
    from skate.data.preprocessors.discretizers import (
        CustomKBinsDiscretizer,
        UniformKBinsDiscretizer,
    )
    from skate.data.preprocessors.encoders import (
        Categorizer,
        LabelEncoder,
        MultiHotEncoder,
        OneHotEncoder,
        OrdinalEncoder,
    )
    from skate.data.preprocessors.scalers import (
        MaxAbsScaler,
        MinMaxScaler,
        Normalizer,
        PowerTransformer,
        RobustScaler,
        StandardScaler,
    )
    from skate.data.preprocessors.text import (
        CountVectorizer,
        FeatureHasher,
        HashingVectorizer,
        Tokenizer,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "BatchMapper",
    "Categorizer",
    "Chain",
    "Concatenator",
    "CountVectorizer",
    "CustomKBinsDiscretizer",
    "FeatureHasher",
    "HashingVectorizer",
    "LabelEncoder",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MultiHotEncoder",
    "Normalizer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "Preprocessor",
    "PreprocessorNotFittedError",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "Tokenizer",
    "TorchVisionPreprocessor",
    "UniformKBinsDiscretizer",
]
