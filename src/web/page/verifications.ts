import { countText, NONE, tookText } from '../../observe/figures.ts';
import type { VerificationStatus } from '../../serve/status/source-details.ts';
import { icon, type Tone } from './icon.ts';
import { ago, markup, type Markup } from './markup.ts';
import { wide } from './page-frame.ts';

const TONES: Readonly<Record<VerificationStatus['verdict'], Tone>> = {
  equal: 'fine',
  differs: 'late',
  unproved: 'look',
};

/** When the copy was last compared with its service, and what that found. */
export function verificationTable(source: string, all: readonly VerificationStatus[], now: number): Markup {
  const rows = all.map(
    ({ resource, mode, verdict, ended_at, seconds, differences, requests }) =>
      markup`<tr><td>${ended_at === null ? NONE : ago(ended_at, now)}</td><td>${resource}</td><td>${mode}</td><td><span class="state ${TONES[verdict]}">${icon(TONES[verdict])}${verdict}</span></td><td class="number">${countText(differences)}</td><td class="number">${countText(requests)}</td><td class="number">${seconds === null ? NONE : tookText(seconds)}</td></tr>`,
  );
  const head = markup`<thead><tr><th scope="col">Ended</th><th scope="col">Resource</th><th scope="col">Mode</th><th scope="col">Verdict</th><th scope="col" class="number">Differences</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Took</th></tr></thead>`;
  return wide('verifications-table', `Verifications of ${source}`, markup`${head}<tbody>${rows}</tbody>`);
}
