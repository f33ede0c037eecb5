/** One line of a profile, and what speaks for it. */
export interface Finding {
  /** Keys that lead to the field: `['resources', 'posts', 'id']`. */
  path: readonly string[];
  /** As the profile writes it. */
  value: unknown;
  /** False if the service did not show it: then it is the safest guess. */
  proved: boolean;
  /** What was asked and what came, as one line without secrets. */
  evidence: string;
}

/** Collects the findings about one part of a profile. */
export interface Findings {
  readonly all: readonly Finding[];
  /** The field is as the service showed. */
  proved: (path: readonly string[], value: unknown, evidence: string) => void;
  /** The field is a guess; `evidence` says why it could not be shown. */
  guessed: (path: readonly string[], value: unknown, evidence: string) => void;
}

/** Findings whose paths begin with `at`. A later finding about a field replaces the one before. */
export function newFindings(at: readonly string[] = []): Findings {
  const byPath = new Map<string, Finding>();
  const add = (path: readonly string[], value: unknown, proved: boolean, evidence: string): void => {
    const whole = [...at, ...path];
    byPath.set(JSON.stringify(whole), { path: whole, value, proved, evidence });
  };
  return {
    get all() {
      return [...byPath.values()];
    },
    proved: (path, value, evidence) => add(path, value, true, evidence),
    guessed: (path, value, evidence) => add(path, value, false, evidence),
  };
}
