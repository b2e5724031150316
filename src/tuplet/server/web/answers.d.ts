// Made from query/schema.py by `make reference`.

export interface Answers {
  /** the question as it was asked */
  query: string;
  /** the columns, in order */
  variables: Array<string>;
  /** the engine that answered */
  engine: string;
  /** how many answers were asked for; null: the default, or all */
  k: number | null;
  /** whether the order shown is proven over all tuples, ties included */
  exact: boolean;
  /** no tuple that is not shown (of those that `only` keeps) has more truth */
  bound: number;
  /** what stopped or limited the search: timeout, memory, work, bytes, or words of an engine */
  pruned: string | null;
  /** false: truth values are no probabilities here; null: nothing is predicted */
  calibrated: boolean | null;
  /** share of the facts that changed since truth was made, where it is more than a tenth */
  stale: number | null;
  /** time of the search */
  elapsed_ms: number;
  /** what you need to repeat the answer */
  about: Provenance;
  /** of a yes-or-no question: whether there is an answer; null: not known */
  boolean?: boolean | null;
  /** of a query that counts; then no tuple is listed */
  count?: AnswerCount;
  /** the tuples, the truest first */
  answers: Array<Answer>;
}

export interface Provenance {
  /** of tuplet */
  version: string;
  /** hash of the graph */
  graph: string;
  /** splits whose facts count as stated */
  observed: Array<string> | "all";
  /** named entities that no stated fact has in their place, mixed attributes */
  hints?: Array<string>;
  /** what is promised of the list */
  guarantee?: Guarantee | null;
  /** predicted facts of less truth are not in the store */
  threshold?: number;
  /** how truth was calibrated */
  calibration?: object | null;
  /** hash of the store */
  store?: string;
  /** the model that scored the facts */
  predictor?: string | null;
  /** whether every predicted fact passed a learned calibration */
  calibrated?: boolean | null;
  /** counts the changes of the store */
  generation?: number;
  /** why truth values are not calibrated */
  not_calibrated?: string | null;
  /** share of the facts that changed since, where it is more than a tenth */
  stale?: number | null;
  /** new entities about which nothing is predicted yet */
  waiting?: number | null;
  /** share of the rows computed, where there was no time for all */
  rows_computed?: number | null;
  /** skip this many answers first */
  offset?: number;
  /** stop after this time with the best answers so far */
  timeout?: number | null;
  /** stop when the search holds this many bytes, such as 2G */
  memory?: number | null;
  /** stop when the search has looked at this many edges (exact) */
  work?: number | null;
  /** keep only tuples that the facts do not imply, or only those they imply */
  only?: "predicted" | "observed" | null;
  /** what an ASK query takes for true: a tuple of this truth at least (default: stated facts alone) */
  ask_threshold?: number | null;
  /** a set that holds a true tuple beyond the facts this often, such as 0.9 (tuplet guarantee comes first) */
  confidence?: number | null;
  /** the longest list beyond the facts of which at most this share is wrong, as far as held-out facts bear it out, such as 0.3 */
  max_false?: number | null;
  /** list the stated facts that speak for each predicted one */
  evidence?: boolean;
  /** leave out the facts that each answer rests on */
  witness?: boolean;
  /** how truth values combine */
  logic?: string;
  /** entities kept for each variable, or 'all' (ns3) */
  budget?: "all";
  /** how hypernodes are merged (ns3) */
  merge?: string;
  /** settings of the engine by name */
  options?: Record<string, string | number | number>;
}

export interface Guarantee {
  /** the limit that asked for it */
  kind: "confidence" | "max_false";
  /** the share that was asked for */
  share: number;
  /** whether nothing was cut: then what is promised holds */
  complete: boolean;
  /** only the set of all tuples keeps the promise; the list does for those with truth */
  everything: boolean;
  /** what was held out; null: the truth values alone */
  ground: "shape" | "family" | "facts" | null;
  /** the shape of the query */
  shape: string | null;
  /** held-out queries that the promise rests on */
  queries: number;
  /** the share of held-out answers that have any truth */
  reach: number | null;
  /** whether held-out queries of this very shape, or held-out facts, bear it out */
  promised: boolean;
  /** held-out facts that the promise rests on (max_false) */
  facts: number;
  /** the smallest share of wrong tuples that these facts can promise of any list */
  least: number | null;
}

export interface AnswerCount {
  /** the column */
  name: string;
  /** how many distinct answers there are */
  answers: number;
  /** the sum of their truth */
  expected: number;
  /** false: a limit stopped the search, and there are at least so many */
  complete: boolean;
}

export interface Answer {
  /** by variable: the name of an entity or relation, or a value */
  values: Record<string, unknown>;
  /** by variable: the label of the entity; empty if it has none */
  labels: Record<string, string>;
  /** the joint truth of the tuple */
  truth: number;
  /** observed: the stated facts imply it; predicted: it rests on predictions alone; mixed: on both; none: nothing makes it true; null: the time was up before it was known */
  status: "observed" | "mixed" | "predicted" | "none" | null;
  /** the facts that the answer rests on, stated and predicted */
  witness: Array<Fact>;
}

export interface Fact {
  /** the alternative of the query (from 0) that the atom belongs to */
  clause: number;
  /** name of an entity */
  head: string;
  /** name of a relation */
  relation: string;
  /** name of an entity */
  tail: string;
  /** whether the query says that it must not hold */
  negated: boolean;
  /** 1 if stated, the calibrated truth if predicted; 1 minus that under a negation */
  truth: number;
  /** whether the fact is stated */
  observed: boolean;
  /** label of the head; empty if it has none */
  head_label: string;
  /** label of the tail; empty if it has none */
  tail_label: string;
  /** evidence for a predicted fact, strongest first; null if it was not asked for, or the time was up */
  evidence: Array<Evidence> | null;
  /** how many times as likely as chance a predicted fact is; null where truth is not calibrated */
  lift: number | null;
}

export interface Evidence {
  /** a path between the ends, or a similar entity */
  kind: "path" | "similar";
  /** the stated facts, in order */
  facts: Array<StatedFact>;
  /** share of the pairs joined alike that have the relation, or similarity */
  weight: number;
}

export interface StatedFact {
  /** name of an entity */
  head: string;
  /** name of a relation */
  relation: string;
  /** name of an entity */
  tail: string;
  /** label of the head; empty if it has none */
  head_label: string;
  /** label of the tail; empty if it has none */
  tail_label: string;
}
