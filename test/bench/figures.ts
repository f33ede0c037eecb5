/** One measured number, and what it is to reach. */
export interface Figure {
  /** Such as `sqlite default ratio`; the stored run knows it by this. */
  name: string;
  value: number;
  /** Written behind the number; nothing for a ratio. */
  unit?: string;
  /** Which way is better. */
  better: 'more' | 'less';
  floor?: number;
  aim?: number;
  /** True for what the machine's mood changes, such as wall time: printed, and not compared with the stored run. */
  isLoose?: boolean;
}

/** Figures by name, as they are stored. */
export type Values = Readonly<Record<string, number>>;

/** From here on a loss is told. */
const LOSS = 0.1;

/** `name: 0.74, floor 0.75 FAILED, aim 0.95 missed` */
export function figureLine(figure: Figure): string {
  const { name, value, unit, floor, aim } = figure;
  const parts = [`${name}: ${numberText(value)}${unit === undefined ? '' : ` ${unit}`}`];
  if (floor !== undefined) parts.push(`floor ${floor} ${reaches(figure, floor) ? 'passed' : 'FAILED'}`);
  if (aim !== undefined) parts.push(`aim ${aim} ${reaches(figure, aim) ? 'passed' : 'missed'}`);
  return parts.join(', ');
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

/** A line for each figure that is worse than the stored one by a tenth or more. */
export function losses(figures: readonly Figure[], stored: Values): string[] {
  return figures.flatMap((figure) => {
    const { name, value, better, isLoose = false } = figure;
    const was = stored[name];
    if (isLoose || was === undefined) return [];
    const loss = better === 'more' ? (was - value) / was : (value - was) / was;
    // Half of the last digit, so that a tenth is a tenth.
    if (loss < LOSS - 1e-9) return [];
    return [
      `${name}: ${numberText(value)}, and ${numberText(was)} in the stored run: ${Math.round(loss * 100)} % lost`,
    ];
  });
}

/** What is stored of figures: those that can be compared, with three digits. */
export function valuesOf(figures: readonly Figure[]): Values {
  const kept = figures.filter(({ value, isLoose = false }) => !isLoose && Number.isFinite(value));
  return Object.fromEntries(kept.map(({ name, value }) => [name, Number(value.toPrecision(3))]));
}
