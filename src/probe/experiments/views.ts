import { isRefusal, said, type QueryParams } from '../ask/answer.ts';
import type { Stage, Subject } from '../stage.ts';
import { countsIn } from './page-signs.ts';
import { pageWith } from './page-size.ts';

/** Parameters that list what is not published as well. */
const VIEWS: readonly QueryParams[] = [{ status: 'any' }, { status: 'all' }, { state: 'all' }];

/** Whether the listing holds more than it shows by default: told by its total. */
export async function probeView(stage: Stage, subject: Subject): Promise<void> {
  const { conventions, asker } = stage;
  const total = totalOf(subject, subject.first);
  if (total === null || asker.form.scheme['type'] === 'none' || conventions.view === 'none') return;
  for (const view of conventions.view === null ? VIEWS : [conventions.view]) {
    if (Object.keys(view).some((name) => Object.hasOwn(subject.query, name))) continue;
    const { answer, records } = await pageWith(stage, subject, view);
    if (isRefusal(answer)) break;
    const wider = records === null ? null : totalOf(subject, answer);
    if (records === null || wider === null || wider <= total) continue;
    conventions.view = view;
    subject.query = { ...subject.query, ...view };
    subject.first = answer;
    subject.records = records;
    subject.total = wider;
    subject.findings.proved(['query'], subject.query, `${said(answer)}, ${wider} records instead of ${total}`);
    return;
  }
  conventions.view ??= 'none';
}

function totalOf({ at }: Subject, answer: Subject['first']): number | null {
  const { totals } = countsIn(answer, at);
  return totals.length === 0 ? null : Math.max(...totals.map(({ value }) => value));
}
