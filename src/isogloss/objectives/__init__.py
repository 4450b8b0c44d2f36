"""What training goes down: one loss a file, tensors in, a scalar out.

| file | what it wants | what it needs |
|---|---|---|
| `mse` | both sides of a pair where a fixed teacher put the source | teacher vectors |
| `moving_teacher` | the translation where a slowly following teacher puts the source | a live teacher |
| `soft_similarity` | the teacher's similarities inside the batch, across languages | teacher vectors |
| `ranking` | the translation nearer than everything else in the batch | no teacher |
| `spread` | different sentences at right angles, as in a space that is used well | no teacher |
| `nli`, `sts` | what people judged of two sentences: their relation, how alike they are | judged pairs |
| `answers` | the answer nearer to its question than all others | questions with answers |
| `translation` | the translation written from the vector alone, by a decoder | no teacher |
| `masked` | hidden words found again from their neighbours | text |

`matryoshka` asks any of them of shorter vectors too, `combined` adds several up, `rows` is how all of them read a batch.

The last five are for training by tasks (`training/tasks.py`). For the others, row j of every argument belongs to pair j.
`source` and `target` are the student's vectors of the two sides, `teacher` the teacher's of the source, `group` the number of
the source sentence, so that pairs with equal numbers say the same, and `target_group` that of the translation, in the same
list of sentences. `weight` is how often a pair counts: 1, or 0 for the padding of a batch of fixed size; None is 1 for all. A
pair of weight 2 is the pair twice. Padding changes neither value nor gradient, whatever stands in its rows. Of these, no
shape and no branch depends on a value, so they can be compiled whole and captured in a CUDA graph.
"""
