//go:build race

package engine

func init() { crashSeeds, crashRounds = 2, 2 } // the detector makes each ten times slower
