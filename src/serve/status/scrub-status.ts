import type { Problem, ResourceStatus, SourceStatus } from './snapshot.ts';

type Scrub = (text: string) => string;

/** The same status, with secrets taken out of whatever a service or a record may have brought into it. */
export function scrubStatus(status: SourceStatus, scrub: Scrub): SourceStatus {
  return {
    ...status,
    resources: status.resources.map((resource) => scrubResource(resource, scrub)),
    schema_changes: status.schema_changes.map(({ table, column, ...change }) => {
      return { ...change, table: scrub(table), column: scrub(column) };
    }),
  };
}

function scrubResource({ runs, rejects, suspects, ...status }: ResourceStatus, scrub: Scrub): ResourceStatus {
  return {
    ...status,
    runs: runs.map((run) => ({ ...run, error: run.error === null ? null : scrubProblem(run.error, scrub) })),
    rejects: rejects.map((reject) => ({ ...reject, example: scrub(reject.example) })),
    suspects: { ...suspects, held_why: suspects.held_why === null ? null : scrub(suspects.held_why) },
  };
}

export function scrubProblem({ code, message, hint }: Problem, scrub: Scrub): Problem {
  return { code, message: scrub(message), hint: hint === null ? null : scrub(hint) };
}
