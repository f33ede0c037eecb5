/**
 * Pictures that hold nothing but pixels: what a browser may be given to show. An SVG can hold scripts and is never among
 * them.
 */
export const RASTER_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif'] as const;
export type RasterType = (typeof RASTER_TYPES)[number];

/** Bytes; a larger picture is only ever downloaded. */
export const MOST_SHOWN_BYTES = 20_000_000;
