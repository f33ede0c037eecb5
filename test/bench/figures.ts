/** One measured number, and what it is to reach. */
export interface Figure {
  /** Such as `sqlite default ratio`. */
  name: string;
  value: number;
  /** Written behind the number; nothing for a ratio. */
  unit?: string;
  /** Which way is better. */
  better: 'more' | 'less';
  floor?: number;
  aim?: number;
}

/** `name: 0.74, floor 0.75 FAILED, aim 0.95 missed` */
export function figureLine(figure: Figure): string {
  const { name, value, unit, floor, aim } = figure;
  const parts = [`${name}: ${numberText(value)}${unit === undefined ? '' : ` ${unit}`}`];
  if (floor !== undefined) parts.push(`floor ${floor} ${reaches(figure, floor) ? 'passed' : 'FAILED'}`);
  if (aim !== undefined) parts.push(`aim ${aim} ${reaches(figure, aim) ? 'passed' : 'missed'}`);
  return parts.join(', ');
}

const cell = (wanted: number | undefined): string => (wanted === undefined ? '' : String(wanted));

/** A Markdown table of the figures. */
export function figureTable(figures: readonly Figure[]): string {
  const rows = figures.map(({ name, value, unit = '', floor, aim }) =>
    [name, `${numberText(value)} ${unit}`.trim(), cell(floor), cell(aim)].join(' | '),
  );
  return ['figure | value | floor | aim', '--- | --- | --- | ---', ...rows].map((row) => `| ${row} |`).join('\n');
}

function reaches({ value, better }: Figure, wanted: number): boolean {
  return better === 'more' ? value >= wanted : value <= wanted;
}

function numberText(value: number): string {
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en-US') : value.toFixed(2);
}

/** Those below their floor; what could not be measured is as well. */
export function failed(figures: readonly Figure[]): Figure[] {
  return figures.filter((figure) => figure.floor !== undefined && !reaches(figure, figure.floor));
}
