use crate::Params;
use crate::cupti::*;

impl Params for CUpti_Device_GetChipName_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 32)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Initialize_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 16)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_DeInitialize_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 16)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_Initialize_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 48)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_Deinitialize_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 24)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_GetSupportedChips_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 32)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_GetBaseMetrics_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 48)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_GetSubMetrics_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 56)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_EvaluateToGpuValues_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 72)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_ConfigAddMetrics_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 40)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_GetConfigImageSize_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 32)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_GetConfigImage_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 40)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_Profiler_Host_GetNumOfPasses_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 40)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_SetConfig_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 60), (26, 64)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_Enable_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 32)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_Disable_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 24)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_Start_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 24)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_Stop_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 24)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_DecodeData_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 45)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_GetCounterAvailability_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 40)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_GetCounterDataSize_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 56)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_CounterDataImage_Initialize_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 40)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_GetCounterDataInfo_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 56)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}

impl Params for CUpti_PmSampling_CounterData_GetSampleInfo_Params {
    const SIZES: &'static [(u32, usize)] = &[(24, 64)];
    fn set_size(&mut self, size: usize) {
        self.structSize = size;
    }
}
